"""A replay as the daemon would have gone: the same judge and loop, on a site as its log shows it.

In come the holes and jobs of a log, trainers, and the site's rules; out comes the same record as of any replay,
with what the site's jobs would have waited for. Nothing that Slurm would not have shown is known to the judge:
jobs are seen as they wait and run, their ends are not.

``site.py``     the site's own side from event to event: jobs, idle nodes, and parts of nodes
``lent.py``     the fragments, from the order to the end: how long orders, starts, boots and ends take
``driver.py``   what the loop observes and acts on, and the clock: exact events, looks at the daemon's pace
"""
