"""Loads exported classifiers as clients would, to predict from token ids."""

from collections.abc import Callable

import numpy as np

IDS, LITERT, ONNX = "saved_model_ids", "litert", "onnx"

# Of `input_ids`, `input_mask` and `segment_ids`, int32 [batch, seq]: probabilities, float32
# [batch, classes].
Predict = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _load_saved_model(path: str, num_threads: int) -> Predict:
    del num_threads  # TensorFlow's are those of the process
    import tensorflow as tf

    model = tf.saved_model.load(path)
    signature = model.signatures["tokens"]

    def predict(ids: np.ndarray, mask: np.ndarray, segments: np.ndarray) -> np.ndarray:
        outputs = signature(
            input_ids=tf.constant(ids),
            input_mask=tf.constant(mask),
            segment_ids=tf.constant(segments),
        )
        return {name: value.numpy() for name, value in outputs.items()}["scores"]

    predict.model = model  # a signature does not keep its model alive
    return predict


def _load_litert(path: str, num_threads: int) -> Predict:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(path, num_threads=num_threads).get_signature_runner()

    def predict(ids: np.ndarray, mask: np.ndarray, segments: np.ndarray) -> np.ndarray:
        return runner(input_ids=ids, input_mask=mask, segment_ids=segments)["scores"]

    return predict


def _load_onnx(path: str, num_threads: int) -> Predict:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads
    session = onnxruntime.InferenceSession(path, options)

    def predict(ids: np.ndarray, mask: np.ndarray, segments: np.ndarray) -> np.ndarray:
        features = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
        return session.run(["scores"], features)[0]

    return predict


LOADERS: dict[str, Callable[[str, int], Predict]] = {
    IDS: _load_saved_model,
    LITERT: _load_litert,
    ONNX: _load_onnx,
}
