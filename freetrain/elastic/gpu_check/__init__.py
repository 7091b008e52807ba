"""What of the elastic runtime can be tried on one GPU or more, in ten minutes.

``python -m freetrain.elastic.gpu_check``. Each check is a process of its own with a time limit, so that one that
hangs or crashes is a line of the table.
"""
