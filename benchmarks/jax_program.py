"""A program of StableHLO with its variables, compiled and run by jax; no TensorFlow."""

import pathlib
from typing import Any

from benchmarks.lowered_case import Program, read_batches, read_program
from electra_tf.util.errors import UserError


class JaxProgram:
    """A compiled program whose variables and batches are on the device.

    Args:
        folder: of the lowered case.
        program: what to compile.
        device: "gpu" or "cpu".

    Attributes:
        device: jax's.
        version: of jax.

    Raises:
        UserError: jax has no such device, or the program does not fit its description.
    """

    def __init__(self, folder: pathlib.Path, program: Program, device: str) -> None:
        import jax
        import jax.extend.backend
        from jaxlib import xla_client

        # Steps are counted in 64 bits.
        jax.config.update("jax_enable_x64", True)
        self.version = jax.__version__
        try:
            self.device = jax.local_devices(backend=device)[0]
        except RuntimeError as error:
            raise UserError(f"--device={device}: jax finds none: {error}") from error
        self._compiled = self.device.client.compile_and_load(
            read_program(folder, program),
            xla_client.DeviceList((self.device,)),
            xla_client.CompileOptions(),
        )
        self._program = program
        self._batches = [
            [jax.device_put(array, self.device) for array in batch]
            for batch in read_batches(folder)
        ]
        self.reset()

    def reset(self) -> None:
        """Gives all variables their initial values, and starts with the first batch."""
        import jax

        self._variables = [
            jax.device_put(argument.initial_value(), self.device)
            for argument in self._program.arguments
        ]
        self._calls = 0

    def run(self, num_steps: int) -> float:
        """Runs steps without waiting for each, and returns the last loss when all are done."""
        for _ in range(num_steps):
            loss = self._run_once()
        return float(loss)

    def _run_once(self) -> Any:
        batch = self._batches[self._calls % len(self._batches)]
        self._calls += 1
        results = self._compiled.execute_sharded([*batch, *self._variables])
        outputs = [shards[0] for shards in results.disassemble_into_single_device_arrays()]
        expected = self._program.num_results + len(self._program.aliases)
        if len(outputs) != expected:
            raise UserError(
                f"{self._program.file} has {len(outputs)} outputs instead of {expected}"
            )
        for output, argument in self._program.aliases:
            self._variables[argument - len(batch)] = outputs[output]
        return outputs[0]

    def profile(self, directory: pathlib.Path, num_steps: int) -> None:
        """Writes the compiled HLO as text, and a trace of some steps for XProf."""
        import jax

        directory.mkdir(parents=True, exist_ok=True)
        with jax.profiler.trace(directory):
            self.run(num_steps)
        (module,) = self._compiled.hlo_modules()
        (directory / "compiled_hlo.txt").write_text(module.to_string())

    def peak_bytes(self) -> int | None:
        """Returns the most that was allocated on the device; None if jax does not tell."""
        return (self.device.memory_stats() or {}).get("peak_bytes_in_use")
