"""The site as one model: which jobs may preempt, delay or block which others.

Facts, as Slurm shows them, are read a part at a time (``reader``) and kept as rows of texts (``facts``), so that a
line which an admin could type is applied to them in memory as Slurm would apply it (``changes``).

Pure questions are asked of them. A and B are kinds of jobs: a partition and a QOS, of the site's or of fragments.

    preemption   which kinds there are; may A preempt B, and how; for how long may a fragment stay that is to leave
    limits       in which limits do fragments count that the site's jobs need, too
    findings     what is not as it should be: of the partition, the QOS, the settings, the reservations

All that judge Slurm ask these: ``config check`` and ``config init``, the daemon's guard, its meter.

Each finding comes with changes. ``advice`` applies them, asks the model again, and adds what is missing: no error
is left, and no pair of the site's own kinds preempts, or is locked out, that did not before. Where the settings
start from a wrong premise it finds the smallest change of ``slurm.partition`` and ``slurm.qos`` that is right.
"""
