"""DLTAP (ITM Web of Conferences 2017): on which node each task of a training goes, by how many peers are there."""
