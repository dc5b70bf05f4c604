"""SavedModel export, with signatures for texts and for ids, for model servers."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf

from electra_tf.inference.export.servable import (
    DESCRIPTION_FILE,
    TEXT_SIGNATURE,
    TOKENIZER_FILE,
    TOKENS_SIGNATURE,
    Servable,
    ServedOutputs,
)
from electra_tf.text.text_inputs import EncoderInputs
from electra_tf.training.checkpoints.checkpoint_files import sha256
from electra_tf.util.errors import UserError
from electra_tf.util.files import read_json, to_json, write_atomically
from electra_tf.util.seals import sealed, without_seal

ConcreteFunction = tf.types.experimental.ConcreteFunction
# A model server reads its warm-up requests from this folder, and ignores other files.
EXTRA_FOLDER, WARMUP_FILE = "assets.extra", "tf_serving_warmup_requests"
BATCHING_FILE, CHECKSUMS_FILE = "batching_parameters.txt", "checksums.json"
BATCH_SIZES = (1, 8)
# Requests that arrive within a millisecond are answered together, 32 rows at most; larger
# batches are hardly faster on CPUs. Inputs are not padded, because the server would repeat
# the first value of a row, which is 1 in `input_mask`.
_BATCHING = """max_batch_size { value: 32 }
batch_timeout_micros { value: 1000 }
"""
_WORD = "warm "
_WARM_LIST = 4  # texts per list


class _ExportedModule(tf.Module):
    """Holds only the variables that the graphs use, without optimizer and unused weights."""

    def __init__(self, variables: Iterable[tf.Variable]) -> None:
        super().__init__(name="electra")
        self.weights = list(variables)


def write_saved_model(servable: Servable, directory: pathlib.Path, model_name: str) -> None:
    """Writes a SavedModel with its warm-up requests and parameters of batching.

    Args:
        servable: the model.
        directory: new folder of the SavedModel.
        model_name: name of the model on a server.
    """
    save_signatures(trace_signatures(servable), directory)
    description = to_json(servable.tokenizer_description.to_dict())
    write_atomically(directory / EXTRA_FOLDER / TOKENIZER_FILE, description)
    write_atomically(directory / EXTRA_FOLDER / DESCRIPTION_FILE, to_json(servable.metadata))
    write_atomically(directory / EXTRA_FOLDER / BATCHING_FILE, _BATCHING)
    write_checksums(directory)
    write_warmup_requests(directory, model_name, servable)


def save_signatures(
    signatures: Mapping[str, ConcreteFunction], directory: pathlib.Path
) -> None:
    """Writes graphs, with the weights that they read."""
    variables = [v for function in signatures.values() for v in _read_variables(function)]
    module = _ExportedModule({id(variable): variable for variable in variables}.values())
    # A gradient would hold kernels that servers without XLA cannot load.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(module, str(directory), signatures=dict(signatures), options=options)


def _read_variables(function: ConcreteFunction) -> list[tf.Variable]:
    """Returns the variables of a graph in the order in which it reads them.

    `function.variables` is a set, whose order differs between processes.
    """
    order = {id(tensor): index for index, tensor in enumerate(function.captured_inputs)}
    return sorted(function.variables, key=lambda variable: order[id(variable.handle)])


def write_checksums(directory: pathlib.Path) -> None:
    """Writes the SHA-256 of all files of a SavedModel that its answers depend on."""
    files = {
        name: sha256(str(directory / name))
        for name in sorted(_names(directory))
        if name != f"{EXTRA_FOLDER}/{BATCHING_FILE}"  # to be edited
    }
    write_atomically(directory / EXTRA_FOLDER / CHECKSUMS_FILE, to_json(sealed(files)))


def check_checksums(directory: pathlib.Path) -> None:
    """Compares the files of a SavedModel with their checksums; older exports have none.

    Raises:
        UserError: a file is missing, or its content has changed.
    """
    path = directory / EXTRA_FOLDER / CHECKSUMS_FILE
    for name, expected in without_seal(read_json(str(path)), path).items():
        try:
            problem = None if sha256(str(directory / name)) == expected else "has changed"
        except OSError as error:
            problem = f"cannot be read ({error.strerror})"
        if problem:
            raise UserError(
                f"{directory / name} {problem} since the export: export the model again, or "
                f"restore the file from a copy (its checksum is in {path})"
            )


def _names(directory: pathlib.Path) -> list[str]:
    paths = (path for path in directory.rglob("*") if path.is_file())
    return [path.relative_to(directory).as_posix() for path in paths]


def trace_signatures(servable: Servable) -> dict[str, ConcreteFunction]:
    """Returns the graphs of both signatures."""

    def answer_texts(**texts: tf.Tensor) -> ServedOutputs:
        _assert_equal([tf.shape(value)[0] for value in texts.values()], texts, "number of rows")
        return servable.answer_texts(texts)

    def answer_tokens(**features: tf.Tensor) -> ServedOutputs:
        inputs = EncoderInputs(**features)
        _assert_equal([tf.shape(value) for value in inputs], features, "shape")
        length = tf.shape(inputs.input_ids)[1]
        message = f"input_ids may have at most {servable.max_seq_length} tokens"
        tf.debugging.assert_less_equal(length, servable.max_seq_length, message=message)
        _assert_below(features, "input_mask", 2)
        _assert_below(features, "segment_ids", servable.num_segments)
        return servable.answer_tokens(inputs)

    texts = {
        name: tf.TensorSpec(
            [None, None] if name in servable.list_names else [None], tf.string, name
        )
        for name in servable.text_names
    }
    tokens = {
        name: tf.TensorSpec([None, None], tf.int32, name) for name in EncoderInputs._fields
    }
    with servable.tracing():
        return {
            TEXT_SIGNATURE: tf.function(answer_texts, autograph=False).get_concrete_function(
                **texts
            ),
            TOKENS_SIGNATURE: tf.function(answer_tokens, autograph=False).get_concrete_function(
                **tokens
            ),
        }


def _assert_equal(sizes: Sequence[tf.Tensor], names: Iterable[str], what: str) -> None:
    """Adds assertions that inputs of a request have equal sizes; others would be broadcast."""
    for size in sizes[1:]:
        message = f"{', '.join(names)} must have the same {what}"
        tf.debugging.assert_equal(size, sizes[0], message=message)


def _assert_below(features: Mapping[str, tf.Tensor], name: str, limit: int) -> None:
    """Adds assertions that the values of an input are valid; others would give odd answers."""
    message = f"{name} must be from 0 to {limit - 1}"
    tf.debugging.assert_non_negative(features[name], message=message)
    tf.debugging.assert_less(features[name], limit, message=message)


def write_warmup_requests(directory: pathlib.Path, model_name: str, servable: Servable) -> None:
    """Writes requests for both signatures, with short and maximum-length rows.

    Args:
        directory: folder of the SavedModel.
        model_name: name of the model on a server.
        servable: the model.
    """
    # Imported here, because it is an optional dependency and loads gRPC.
    from tensorflow_serving.apis import prediction_log_pb2

    folder = directory / EXTRA_FOLDER
    folder.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(folder / WARMUP_FILE)) as writer:
        for signature, inputs in _requests(servable):
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = model_name
            request.model_spec.signature_name = signature
            for name, value in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            writer.write(log.SerializeToString(deterministic=True))


def _requests(servable: Servable) -> list[tuple[str, dict[str, tf.Tensor]]]:
    requests = []
    for batch_size in BATCH_SIZES:
        for length in (servable.max_seq_length // 4, servable.max_seq_length):
            text = _WORD * length
            texts = {
                name: [[text] * _WARM_LIST if name in servable.list_names else text]
                * batch_size
                for name in servable.text_names
            }
            requests.append((TEXT_SIGNATURE, texts))
            ids = tf.fill([batch_size, length], servable.vocabulary.unk_id)
            inputs = EncoderInputs(ids, tf.ones_like(ids), tf.zeros_like(ids))
            requests.append((TOKENS_SIGNATURE, inputs._asdict()))
    return requests
