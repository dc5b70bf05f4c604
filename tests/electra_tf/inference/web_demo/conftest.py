"""The page of the tests."""

import pytest

from electra_tf.inference.web_demo.config import DemoConfig
from tests.electra_tf.inference.web_demo.exports import write_exports


@pytest.fixture(scope="session")
def demo_config(tmp_path_factory, tiny_data) -> DemoConfig:
    """A page over a pre-trained model and a task, for texts of 100 characters at most."""
    folder = tmp_path_factory.mktemp("web_demo")
    write_exports(folder, tiny_data)
    return DemoConfig(
        discriminator=folder / "discriminator",
        generator=folder / "generator",
        tasks={"topic": folder / "topic"},
        port=0,
        max_characters=100,
    )
