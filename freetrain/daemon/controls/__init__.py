"""Controls: how people and Slurm steer a daemon that runs, without touching its database.

Each is a file or a socket in the state directory that the daemon reads at every look, so that it also counts
for one that starts later.

- ``site_orders.py``: nothing more is lent until a time, or nothing at all while a stop file is there; nodes are
  emptied for a maintenance.
- ``nudge.py``: a socket on which owners ask for a look now, each at a pace, and a file to which Slurm's plug-ins
  write a byte when jobs come or end.
"""
