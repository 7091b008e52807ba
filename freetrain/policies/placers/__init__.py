"""Placers: which nodes each trainer gets, once it is decided how many. One small file each."""
