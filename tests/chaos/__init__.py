"""Chaos: a site on a real Slurm, whose parts fail every few seconds, and what must hold all the time.

    python -m tests.chaos --seconds 1200 --seed 7 --launcher steer

1. ``scene.py`` is a virtual site with a daemon, trainings, tasks, the site's jobs and three users.
2. ``slurm_programs.py`` stands between the daemon and Slurm's commands: it cuts them off where a fault says so,
   and writes down which orders were given.
3. ``faults.py`` is the one list of faults. Each is a generator: it breaks something, yields how long that lasts,
   and mends it.
4. ``invariants.py`` says what is violated: at every look at the site, whenever all is mended, and at the end.
5. ``__main__.py`` draws faults, looks, and prints the table. ``--without`` plays the same site without freetrain,
   with those of the faults that are Slurm's: what the site's jobs wait then is what they are to be compared with.
"""
