"""How long a training pauses when its world changes: freetrain beside torchrun elastic, in the same run.

Run from the repository's root as ``python -m benchmarks.elastic``. All ranks are on this machine and speak gloo;
an agent, with the one worker that it starts, stands for a node.

A *pause* is the time from the end of the last step of the old world to the end of the first step of the new one:
one step is part of it, and whatever that step does for the first time. A step ends when its backward pass does,
with the gradients exchanged; rank 0 of each world stamps it, by the same lines of code and the same clock in every
system. If a change takes several worlds (newcomers rarely arrive at the same moment), their pauses add up. Steps
that are done again after a return to a checkpoint are counted, but their time is not part of the pause.
"""
