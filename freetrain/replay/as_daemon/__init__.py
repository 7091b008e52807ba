"""A replay as the daemon would have gone: the same judge and loop, on a site as its log tells it.

``site.py`` is the site's own side, from event to event; ``lent.py`` the nodes that are lent, with the time that
Slurm and a training need to start and to leave; ``cluster.py`` what the loop observes and acts on; ``driver.py``
the clock.
"""
