"""A stand-in for `tensorflow_model_server`: its two ways in, and its way to a SavedModel.

Like the C++ server, it loads the graph of the tag "serve" into a session, runs its initializers
and maps `PredictRequest`s to the tensors that the signatures name. The rules of REST are those
of TensorFlow Serving's "RESTful API". HTTP, gRPC and batching are not part of it.
"""

import functools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers ops that the model server registers, too
from tensorflow_serving.apis import predict_pb2


class Server:
    """Answers requests with the SavedModel of a folder.

    Args:
        directory: EXPORT_DIR/VERSION.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = pathlib.Path(directory)
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            meta_graph = tf.compat.v1.saved_model.load(self._session, ["serve"], str(directory))
        self.signatures = {
            name: signature
            for name, signature in meta_graph.signature_def.items()
            if signature.method_name == "tensorflow/serving/predict"
        }

    def signature(self, name: str) -> Any:
        """Returns a signature as TensorFlow 2 loads it."""
        return self._functions.signatures[name]

    @functools.cached_property
    def _functions(self) -> Any:
        return tf.saved_model.load(str(self._directory))

    def grpc(self, serialized_request: bytes) -> bytes:
        """Answers a serialized `PredictRequest` with a serialized `PredictResponse`.

        Raises:
            ValueError: signature, inputs or dtypes are not those of the model.
        """
        request = predict_pb2.PredictRequest.FromString(serialized_request)
        name = request.model_spec.signature_name or "serving_default"
        inputs = {key: tf.make_ndarray(proto) for key, proto in request.inputs.items()}
        outputs = self._run(name, inputs, list(request.output_filter))
        response = predict_pb2.PredictResponse()
        response.model_spec.name = request.model_spec.name
        response.model_spec.signature_name = name
        response.model_spec.version.value = int(self._directory.name)
        for key, value in outputs.items():
            response.outputs[key].CopyFrom(tf.make_tensor_proto(value))
        return response.SerializeToString()

    def rest(self, body: str) -> dict[str, Any]:
        """Answers the body of `POST /v1/models/NAME:predict`."""
        request = json.loads(body)
        name = request.get("signature_name", "") or "serving_default"
        infos = self.signatures[name].inputs
        columns = request.get("inputs")
        if columns is None:
            rows = request["instances"]
            if not isinstance(rows[0], dict):
                (only,) = infos
                rows = [{only: row} for row in rows]
            columns = {key: [row[key] for row in rows] for key in infos}
        elif not isinstance(columns, dict):
            (only,) = infos
            columns = {only: columns}
        inputs = {
            key: np.array(columns[key], tf.dtypes.as_dtype(info.dtype).as_numpy_dtype)
            for key, info in infos.items()
        }
        outputs = {key: _to_json(value) for key, value in self._run(name, inputs, []).items()}
        if "inputs" in request:
            return {"outputs": outputs if len(outputs) > 1 else next(iter(outputs.values()))}
        count = len(next(iter(columns.values())))
        # Rows can be told apart only if every output has one for each.
        assert all(len(values) == count for values in outputs.values()), outputs
        predictions = [{key: v[i] for key, v in outputs.items()} for i in range(count)]
        if len(outputs) == 1:
            predictions = [next(iter(prediction.values())) for prediction in predictions]
        return {"predictions": predictions}

    def _run(
        self, name: str, inputs: Mapping[str, np.ndarray], wanted: list[str]
    ) -> dict[str, np.ndarray]:
        if name not in self.signatures:
            raise ValueError(f"Serving signature key {name!r} not found")
        infos = self.signatures[name].inputs
        if inputs.keys() != infos.keys():
            raise ValueError(f"The signature takes {sorted(infos)}, not {sorted(inputs)}")
        for key, value in inputs.items():
            expected = tf.dtypes.as_dtype(infos[key].dtype)
            if value.dtype != expected.as_numpy_dtype:
                raise ValueError(f"input {key!r} must be {expected.name}, not {value.dtype}")
        outputs = self.signatures[name].outputs
        fetches = {key: outputs[key].name for key in wanted or outputs}
        feeds = {infos[key].name: value for key, value in inputs.items()}
        return self._session.run(fetches, feeds)


def predict(
    server: Server, model: str, signature: str = "", wanted: tuple[str, ...] = (), **inputs: Any
) -> predict_pb2.PredictResponse:
    """Returns the answer to a `PredictRequest`, as a client builds it."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    request.output_filter.extend(wanted)
    for name, value in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return predict_pb2.PredictResponse.FromString(server.grpc(request.SerializeToString()))


def arrays(response: predict_pb2.PredictResponse) -> dict[str, np.ndarray]:
    """Returns the outputs of a response."""
    return {name: tf.make_ndarray(proto) for name, proto in response.outputs.items()}


def _to_json(value: np.ndarray) -> Any:
    if value.dtype == object:
        value = np.vectorize(lambda text: text.decode(), otypes=[object])(value)
    return value.tolist()
