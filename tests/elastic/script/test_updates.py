from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from freetrain.elastic.data.batching import Sampler
from freetrain.elastic.errors import LostRankError
from freetrain.elastic.script.updates import Updates
from freetrain.elastic.training.state import TrainingState
from freetrain.errors import InputError

DRAWING = SimpleNamespace(samples=1, share=1.0, mark=0)


class Other:
    """A world with one more rank, whose gradients are all 1, if it has any; it may be lost."""

    def __init__(self) -> None:
        self.is_lost = False
        self.told: list[str] = []
        self.has_gradients = True
        self.gradient = 1.0
        self.peers = self.world = self
        self.size = 2

    def sum(self, values: list[float]) -> list[float]:
        return [value + self.has_gradients for value in values]

    def ask(self, what: str, digest: int, loss_share: float) -> Any:
        self.told.append("vote")
        if self.is_lost:
            raise LostRankError("gone")
        return None

    def agree(self, asked: Any) -> None:
        pass

    def start_broadcast(self, tensor: torch.Tensor, source: int) -> Any:
        raise AssertionError("this model has no buffers")

    def start_add_up(self, tensors: list[torch.Tensor]) -> Any:
        self.told.append("gradients")
        for tensor in tensors:
            tensor[:-1].add_(self.gradient if self.has_gradients else 0.0)
            tensor[-1] += float(not self.has_gradients)  # the other's word that its gradients are otherwise
        return lambda: None


class ElasticTraining:
    """Two parameters, each with an optimizer that subtracts the gradient."""

    def __init__(self) -> None:
        self.module = torch.nn.ParameterList([torch.zeros(2), torch.zeros(3, 3)])
        self.optimizers = [torch.optim.SGD([parameter], 1.0) for parameter in self.module]
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizers[0], 0.5)
        self.state = TrainingState(self.module, self.optimizers, Sampler(8, 1), {"schedule": self.schedule})
        self.world = Other()
        self.updates = Updates(self.state, cast(Any, self.world), cast(Any, DRAWING))

    def begin(self, weight: float = 0.5) -> None:
        self.updates.begin_step()
        self.updates.weigh(weight)

    def propagate(self, place: int, gradient: float) -> None:
        (gradient * self.module[place].sum()).backward()

    def update(self, place: int, gradient: float) -> None:
        self.optimizers[place].zero_grad()
        self.propagate(place, gradient)
        self.optimizers[place].step()

    def values(self) -> list[float]:
        return [float(parameter.detach().flatten()[0]) for parameter in self.module]


def test_an_optimizer_steps_with_the_sum_of_what_each_rank_has_for_its_share() -> None:
    training = ElasticTraining()
    training.begin(weight=0.25)
    training.update(0, 8.0)
    assert training.values() == [-(0.25 * 8.0 + 1.0), 0.0]
    assert training.state.updates == 1


def test_ranks_agree_before_the_gradients_of_each_update_are_summed() -> None:
    training = ElasticTraining()
    for _ in range(2):
        training.begin()
        training.update(0, 4.0)
        training.update(1, 4.0)
        training.state.note_step(1)
    assert training.world.told == ["vote", "gradients"] * 4


def test_who_cannot_vote_any_more_makes_no_update() -> None:
    training = ElasticTraining()
    training.begin()
    training.world.is_lost = True
    training.update(0, 4.0)
    assert isinstance(training.updates.lost, LostRankError)
    assert training.values() == [0.0, 0.0]


def test_batches_of_one_step_count_by_their_own_shares() -> None:
    training = ElasticTraining()
    training.begin(weight=0.5)
    training.propagate(0, 4.0)
    training.updates.weigh(0.0)
    training.propagate(0, float("inf"))
    training.updates.weigh(0.25)
    training.propagate(0, 8.0)
    training.optimizers[0].step()
    assert training.values()[0] == -(0.5 * 4.0 + 0.25 * 8.0 + 1.0)


def test_what_is_summed_for_clipping_is_not_summed_again() -> None:
    training = ElasticTraining()
    training.begin()
    training.propagate(0, 4.0)
    training.updates.sum(training.optimizers[0])
    training.module[0].grad.mul_(0.1)
    training.optimizers[0].step()
    assert training.values()[0] == pytest.approx(-0.3)


@pytest.mark.parametrize("unscales_itself", [True, False])
def test_an_infinite_gradient_of_another_rank_leaves_the_update_out_here_too(unscales_itself: bool) -> None:
    training = ElasticTraining()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    training.updates.sum_before_unscaling(scaler)
    for gradient, expected in ((float("inf"), 0.0), (2.0, -(0.5 * 3.0 + 2.0 / 2.0))):
        training.world.gradient = gradient
        training.begin()
        training.optimizers[0].zero_grad()
        scaler.scale(3.0 * training.module[0].sum()).backward()
        if unscales_itself:
            scaler.unscale_(training.optimizers[0])
        scaler.step(training.optimizers[0])
        scaler.update()
        assert training.values()[0] == expected
        assert training.updates.count == 1
        assert scaler.get_scale() == 2.0
        training.state.note_step(1)


def test_a_parameter_without_gradient_anywhere_keeps_none() -> None:
    training = ElasticTraining()
    training.begin()
    training.updates.sum(training.optimizers[1])
    assert torch.equal(training.module[1].grad, torch.ones(3, 3))
    training.state.note_step(1)
    training.begin()
    training.module[1].grad, training.world.has_gradients = None, False
    training.updates.sum(training.optimizers[1])
    assert training.state.updates == 1
    assert training.module[1].grad is None


def test_after_a_loss_optimizers_do_nothing_and_what_was_done_since_is_taken_back() -> None:
    training = ElasticTraining()
    training.begin()
    training.update(1, 2.0)
    training.world.is_lost = True
    training.update(0, 4.0)
    training.schedule.step()
    assert training.values() == [0.0, -2.0]
    assert training.updates.lost is not None
    assert training.optimizers[0].param_groups[0]["lr"] == 0.5
    training.updates.take_back()
    assert training.optimizers[0].param_groups[0]["lr"] == 1.0
    assert training.schedule.state_dict()["last_epoch"] == 0


def test_a_step_that_is_made_again_leaves_out_the_updates_that_were_made() -> None:
    training = ElasticTraining()
    training.begin()
    training.update(1, 2.0)
    training.begin()  # the state still says that one update was made
    training.update(1, 2.0)
    training.update(0, 4.0)
    assert training.values() == [-3.0, -2.0]
    training.state.note_step(8)
    assert training.state.updates == 0


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_what_a_schedule_did_between_two_updates_counts_once_when_the_second_is_made_again() -> None:
    training = ElasticTraining()
    for is_lost in (True, False):
        training.begin()
        training.update(1, 2.0)
        training.schedule.step()
        training.world.is_lost = is_lost
        training.update(0, 4.0)
        if is_lost:
            training.updates.take_back()
    assert training.schedule.state_dict()["last_epoch"] == 1
    assert training.values() == [-0.5 * 3.0, -2.0], "with the halved rate"


def test_outside_of_steps_an_optimizer_is_the_scripts_own() -> None:
    training = ElasticTraining()
    training.update(0, 4.0)
    assert training.values()[0] == -4.0
    with pytest.raises(InputError, match=r"run.sync\(\) was called before the first batch"):
        training.updates.sum(training.optimizers[0])


@pytest.mark.parametrize("by_name", [False, True])
def test_a_closure_is_called_once_before_its_gradients_are_summed(by_name: bool) -> None:
    training, losses = ElasticTraining(), []
    training.begin(weight=0.25)

    def closure() -> torch.Tensor:
        training.optimizers[0].zero_grad()
        loss = 4.0 * training.module[0].sum()
        loss.backward()
        training.world.told.append("closure")
        return loss.detach()

    with torch.no_grad():
        step = training.optimizers[0].step
        losses.append(step(closure=closure) if by_name else step(closure))
    assert training.values()[0] == -2.0
    assert training.world.told == ["closure", "vote", "gradients"]
    assert [float(loss) for loss in losses] == [0.0]


def test_no_closure_is_no_closure() -> None:
    """As Accelerate calls the optimizers that it wraps."""
    training = ElasticTraining()
    training.begin(weight=0.25)
    training.propagate(0, 4.0)
    training.optimizers[0].step(None)
    assert training.values()[0] == -2.0


def test_a_closure_of_a_step_that_is_lost_changes_nothing() -> None:
    training = ElasticTraining()
    training.begin()
    training.world.is_lost = True
    training.optimizers[0].step(lambda: training.propagate(0, 4.0))
    assert training.values()[0] == 0.0
    assert training.updates.lost is not None


class Perturbing(torch.optim.SGD):
    """Steps before it calls its closure, as sharpness-aware optimizers do."""

    def step(self, closure: Any = None) -> Any:
        super().step()
        return super().step(closure)


@pytest.mark.parametrize("kind", [torch.optim.LBFGS, Perturbing])
def test_closures_of_optimizers_that_may_call_them_otherwise_are_refused(kind: Any) -> None:
    training = ElasticTraining()
    optimizer = kind([training.module[0]], 1.0)
    state = TrainingState(training.module, [optimizer], Sampler(8, 1), {})
    updates = Updates(state, cast(Any, training.world), cast(Any, DRAWING))
    updates.begin_step()
    updates.weigh(0.5)
    with pytest.raises(InputError, match=f"{kind.__name__}.step.. was called with a closure"):
        optimizer.step(lambda: 0.0)
