"""What the page shows and where it is served; imports no TensorFlow."""

import dataclasses
import ipaddress
import pathlib
from collections.abc import Mapping

from electra_tf.util.errors import UserError

LOOPBACK = "127.0.0.1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DemoConfig:
    """One page.

    Attributes:
        discriminator, generator: folders of exports (`EXPORT_DIR`, the newest version is
            taken), or None.
        tasks: folders of exported fine-tuned tasks, by name.
        host: address to listen on.
        port: 0 for any free one.
        max_characters: of each text of a request.

    Raises:
        UserError: for a value that cannot be.
    """

    discriminator: pathlib.Path | None = None
    generator: pathlib.Path | None = None
    tasks: Mapping[str, pathlib.Path] = dataclasses.field(default_factory=dict)
    host: str = LOOPBACK
    port: int = 8080
    max_characters: int = 2000

    def __post_init__(self) -> None:
        if not (self.discriminator or self.tasks):
            raise UserError(
                "Nothing to show: name an exported model with --discriminator or --tasks "
                "(export_saved_model.py makes them)"
            )
        if self.generator and not self.discriminator:
            raise UserError("--generator adds to the tokens of --discriminator: name both")
        if not 0 <= self.port < 2**16:
            raise UserError(f"--port must lie in [0, 65535], not {self.port}")
        if self.max_characters < 1:
            raise UserError(f"--max_characters must be positive, not {self.max_characters}")

    @property
    def is_local(self) -> bool:
        """Whether nobody but this machine can reach the page."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
