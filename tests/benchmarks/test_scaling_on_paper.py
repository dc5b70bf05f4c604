"""Scaling on paper: the formulas, against cases that can be worked out by hand."""

import pathlib

import pytest

from benchmarks import scaling_on_paper as paper
from electra_tf.config.pretraining import discriminator_config

ROOT = pathlib.Path(__file__).parents[2]
EXACT = paper.Assumptions(utilization=0.5, network_efficiency=1.0, hop_seconds=0.0)


def cluster(hosts: int, devices: int) -> paper.Cluster:
    return paper.Cluster(
        name="c",
        hosts=hosts,
        devices_per_host=devices,
        peak_flops=100.0,
        link_bytes=10.0,
        adapter_bytes=1.0,
        utilization={},
    )


def test_one_device_has_nothing_to_sum():
    time = paper.step_time(cluster(1, 1), 100.0, 40.0, EXACT)
    assert (time.compute, time.all_reduce) == (2.0, 0.0)
    assert time.after_backward == time.during_backward == 2.0


def test_hosts_ring_the_share_of_each_device():
    # 4 devices: 6/4 of 40 bytes over 10 bytes/s; 2 hosts: 10 bytes over 1 byte/s.
    assert paper.step_time(cluster(1, 4), 100.0, 40.0, EXACT).all_reduce == 6.0
    assert paper.step_time(cluster(2, 4), 100.0, 40.0, EXACT).all_reduce == 16.0
    slow = paper.Assumptions(0.5, network_efficiency=0.5, hop_seconds=0.25)
    assert paper.step_time(cluster(2, 4), 100.0, 40.0, slow).all_reduce == 32.0 + 8 * 0.25


def test_the_backward_pass_hides_what_it_can():
    assert paper.StepTime(3.0, 1.5).during_backward == 3.0
    assert paper.StepTime(3.0, 2.5).during_backward == 3.5
    assert paper.StepTime(3.0, 2.5).after_backward == 5.5


@pytest.mark.parametrize(
    ("size", "with_head"),
    [("small", 13_549_057), ("base", 109_483_009), ("large", 335_142_913)],
)
def test_parameters_are_those_of_the_published_sizes(size, with_head):
    config = paper.create_config(size, 1, 128)
    encoder = discriminator_config(config)
    head = encoder.hidden_size**2 + 2 * encoder.hidden_size + 1
    found = paper.embedding_parameters(encoder) + paper.layer_parameters(encoder) + head
    assert found == with_head


def test_parameters_of_both_models():
    # Its generator of width 64: 12 layers, projection, head of [64, 128] and biases.
    generator = 12 * (12 * 64**2 + 13 * 64) + 129 * 64
    head = 65 * 128 + 2 * 128 + 30_522
    assert paper.trainable_parameters(paper.create_config("small", 1, 128)) == (
        13_549_057 + generator + head
    )


def test_the_documented_table_is_computed_with_the_defaults():
    defaults = paper.Assumptions(
        *(paper.flags.FLAGS[name].default for name in ("utilization", "network_efficiency")),
        paper.flags.FLAGS["hop_microseconds"].default * 1e-6,
    )
    page = (ROOT / "docs/several_devices.md").read_text(encoding="utf-8")
    assert paper.format_table(defaults) in page
