"""The training as written for freetrain: its processes live through every change of the world."""

from __future__ import annotations

from benchmarks.elastic.scripts.footprint import Footprint
from benchmarks.elastic.scripts.stamps import Stamps
from benchmarks.elastic.scripts.training import BATCH, SAMPLES, loss_of, make_model
from freetrain import elastic


def main() -> None:
    """Train until told to stop."""
    stamps, footprint = Stamps(), Footprint()
    model, optimizer = make_model()

    def on_step(result: elastic.StepResult) -> None:
        if result.rank == 0:
            stamps.write(result.step, result.world)
            footprint.note_step()

    with elastic.Run(
        model,
        optimizer,
        SAMPLES,
        elastic.FixedBatch(BATCH),
        epochs=1_000_000,
        on_resize=lambda _: footprint.enter_world(),
        on_step=on_step,
    ) as run:
        for step in run.steps():
            stamps.begin()
            for ids in step:
                step.backward(loss_of(run.model, ids))
            stamps.end()


if __name__ == "__main__":
    main()
