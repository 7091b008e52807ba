"""The model of five coefficients, the layered recurrence, and the fit of the one to the other."""

from __future__ import annotations

import itertools
import random

import pytest

from freetrain.policies.smd.layers import Layer, Network, step_s
from freetrain.policies.smd.speed import Point, ServerModel, fit_servers

SIZES = tuple(itertools.product((1, 2, 4, 8, 12, 16), (1, 2, 4, 8)))


def test_the_terms_add_up() -> None:
    model = ServerModel((0.005, 0.02, 0.1, 0.001, 0.001), 256)
    assert float(model.step_s(7, 10)) == pytest.approx(0.289857, abs=5e-7)
    assert float(model.step_s(8, 8)) == pytest.approx(0.2960)
    assert float(model.step_s(1, 1)) == pytest.approx(1.402)


@pytest.mark.parametrize("coefficients", [(0.005, 0.02, 0.1, 0.001, 0.001), (0.01, 0.0, 0.05, 0.0, 0.002)])
def test_a_fit_finds_the_coefficients_that_the_points_come_from(
    coefficients: tuple[float, float, float, float, float],
) -> None:
    model = ServerModel(coefficients, 128)
    points = [Point(w, p, float(model.step_s(w, p))) for w, p in SIZES]
    assert fit_servers(points, 128).coefficients == pytest.approx(coefficients, abs=1e-9)


def test_too_few_sizes_are_not_fitted() -> None:
    four = [Point(workers, 1, 1.0) for workers in (1, 2, 4, 8)]
    with pytest.raises(ValueError, match="5 different sizes"):
        fit_servers(four * 3, 128)


def test_layers_are_sent_one_after_the_other_and_come_back_meanwhile() -> None:
    """Layers that take no time to compute: sent after 1 s and, the large one, 4 s; back after 2 s and 7 s."""
    network = Network(1e9, 1e12)
    assert step_s([Layer(3e9, 0.0, 0.0), Layer(1e9, 0.0, 0.0)], network, 1.0, 1, 1) == pytest.approx(7.0)
    assert step_s([Layer(1e9, 0.0, 0.0)] * 2, network, 1.0, 1, 1) == pytest.approx(3.0)


def test_a_single_layer_hides_nothing() -> None:
    network = Network(1e9, 0.5e9, latency_s=0.5, update_s_per_byte=1e-9)
    # Eight samples of 0.25 s on each worker, backward 3 s, twice 2.5 s on the way (1 GB/s for both), update 1 s.
    assert step_s([Layer(1e9, 0.25, 3.0)], network, 16.0, 2, 2) == pytest.approx(2.0 + 3.0 + 5.0 + 1.0)


def random_training(seed: int) -> tuple[list[Layer], Network, float]:
    draw = random.Random(seed)
    layers = [
        Layer(draw.uniform(1e5, 4e7), draw.uniform(1e-5, 4e-4), draw.uniform(1e-4, 5e-3))
        for _ in range(draw.randint(4, 20))
    ]
    return layers, Network(draw.uniform(1e9, 10e9), draw.uniform(1e9, 10e9), 1e-4, 1e-10), 256.0


@pytest.mark.parametrize("seed", range(10))
def test_a_step_hides_what_it_can_and_no_more(seed: int) -> None:
    layers, network, batch = random_training(seed)
    for workers, servers in SIZES:
        computing = sum(layer.forward_s * batch / workers + layer.backward_s for layer in layers)
        sending = sum(network.send_s(layer, workers, servers) for layer in layers)
        updating = sum(network.update_s(layer, workers, servers) for layer in layers)
        taken = step_s(layers, network, batch, workers, servers)
        assert taken >= max(computing, sending) - 1e-9
        assert taken <= computing + 2 * sending + updating + 1e-9


def test_the_model_of_five_coefficients_is_close_to_the_layers() -> None:
    errors = []
    for seed in range(10):
        layers, network, batch = random_training(seed)
        points = [Point(w, p, step_s(layers, network, batch, w, p)) for w, p in SIZES]
        model = fit_servers(points, batch)
        errors += [abs(float(model.step_s(one.workers, one.servers)) / one.step_s - 1) for one in points]
    assert sum(errors) / len(errors) < 0.15
