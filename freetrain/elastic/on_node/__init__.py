"""The agent that a fragment runs on its node: it starts workers and takes them out of the training in time.

``freetrain run`` is the agent. It needs no torch, so that it starts at once, and it trains nothing: workers are
processes of the user's script. A signal (SIGTERM from Slurm's preemption) makes them leave at the next step
boundary, or in restart mode save and end.

In come the user's options, signals and requests in the trainer's directory; out go an exit status and its
reason: 0 where the training is complete or can go on without this node.

Files, in reading order:

- ``workers.py``: the options, the signals that ask to leave, worker processes and what torchrun would tell them.
- ``agent.py``: scripts that train with freetrain.elastic: each worker is a member; failed ones are replaced.
- ``template.py``: a process that has imported what a script imports, and from which its workers are forked.
- ``servers.py``: on which nodes servers add up gradients, and whether this one has to run one.
- ``restart.py``: scripts for torchrun: agents are the members, and each world starts the script again from its
  own checkpoint.
- ``freezing.py``: programs of fillers that cannot save themselves, and are saved by a freezer of the site's.
"""
