"""Requests that a model server sends itself when it loads a model.

TensorFlow builds kernels and plans at the first request of a kind; these are answered
before the model counts as loaded, so that no user waits for it. The file is a TFRecord of
`PredictionLog`s, in `assets.extra/` of the SavedModel (TensorFlow Serving's "SavedModel
Warmup").
"""

import pathlib

import tensorflow as tf

from electra_tf.export.servable import TEXT_SIGNATURE, TOKENS_SIGNATURE, Servable
from electra_tf.text.text_inputs import EncoderInputs

FOLDER, FILE = "assets.extra", "tf_serving_warmup_requests"
BATCH_SIZES = (1, 8)
_WORD = "warm "


def write_warmup_requests(directory: pathlib.Path, model_name: str, servable: Servable) -> None:
    """Writes requests for both signatures, of short and of longest rows.

    Args:
        directory: of the SavedModel.
        model_name: under which the server offers it.
        servable: the model.
    """
    # Imported here: it loads gRPC, which nothing else needs.
    from tensorflow_serving.apis import prediction_log_pb2

    folder = directory / FOLDER
    folder.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(folder / FILE)) as writer:
        for signature, inputs in _requests(servable):
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = model_name
            request.model_spec.signature_name = signature
            for name, value in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            writer.write(log.SerializeToString())


def _requests(servable: Servable) -> list[tuple[str, dict[str, tf.Tensor]]]:
    requests = []
    for batch_size in BATCH_SIZES:
        for length in (servable.max_seq_length // 4, servable.max_seq_length):
            texts = {name: [_WORD * length] * batch_size for name in servable.text_names}
            requests.append((TEXT_SIGNATURE, texts))
            ids = tf.fill([batch_size, length], servable.vocabulary.unk_id)
            inputs = EncoderInputs(ids, tf.ones_like(ids), tf.zeros_like(ids))
            requests.append((TOKENS_SIGNATURE, inputs._asdict()))
    return requests
