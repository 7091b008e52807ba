"""Feeding: a newcomer gets the training's state while the others train on, and joining does not stop them for it.

A newcomer whose model is large says in its member record that it is to be fed. No world takes it
in before it is ready:

1. It writes ``NAME.feed`` into the directory: at which port it listens, and which member is to be its source. On
   one machine both see one memory, the newcomer's; elsewhere the same bytes travel through the connection.
2. After each step the source sends some parameters with what their optimizer knows of each (*state*), and before
   each update of an optimizer the summed gradients of those that it has sent (*update*). With these the newcomer
   steps its own, which makes its parameters what they are at the source, bit by bit.
3. When all parameters are there, each *state* message has the rest besides: buffers, schedules, positions,
   random numbers. The newcomer writes ``NAME.ready``, the next generation has it, and all ranks have the same
   state. If a world broke in the middle of a step, the next one begins with the rest: scripts change it in
   there, too.

Of a sharded model each worker of the newcomer's node is fed by a worker with the same shard.

The source waits for the newcomer before it sends the next update, so neither is ever more than an update ahead.
Whatever fails (the source is lost or leaves, something cannot be fed), the newcomer is then ready at once. The
world that takes it in sees by its step number that it is behind, and all get the state by broadcast. A newcomer
that is lost costs its source nothing.

Files, in reading order: ``link.py`` (the connection, and memory that both ends see), ``parts.py`` (the state in
parts, and packets of tensors), ``feeder.py`` (the source's side), ``newcomer.py`` (the other side, with what can
be fed).
"""
