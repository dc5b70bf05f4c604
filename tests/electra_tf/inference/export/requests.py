"""A model server's two ways in, for tests: gRPC's messages and REST's JSON.

The rules of REST are those of TensorFlow Serving's "RESTful API".
"""

import json
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2


class Server:
    """Answers requests with the SavedModel of a folder."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._model = tf.saved_model.load(str(directory))

    def signature(self, name: str) -> Any:
        """Returns a signature; an empty name is the default one."""
        return self._model.signatures[name or "serving_default"]

    def grpc(self, serialized_request: bytes) -> bytes:
        """Answers a serialized `PredictRequest` with a serialized `PredictResponse`."""
        request = predict_pb2.PredictRequest.FromString(serialized_request)
        inputs = {
            name: tf.constant(tf.make_ndarray(proto)) for name, proto in request.inputs.items()
        }
        signature = self.signature(request.model_spec.signature_name)
        response = predict_pb2.PredictResponse()
        for name, value in signature(**inputs).items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
        return response.SerializeToString()

    def rest(self, body: str) -> dict[str, Any]:
        """Answers the body of `POST /v1/models/NAME:predict`."""
        request = json.loads(body)
        signature = self.signature(request.get("signature_name", ""))
        specs = signature.structured_input_signature[1]
        columns = request.get("inputs")
        if columns is None:
            rows = request["instances"]
            if not isinstance(rows[0], dict):
                (name,) = specs
                rows = [{name: row} for row in rows]
            columns = {name: [row[name] for row in rows] for name in specs}
        elif not isinstance(columns, dict):
            (name,) = specs
            columns = {name: columns}
        inputs = {name: tf.constant(columns[name], spec.dtype) for name, spec in specs.items()}
        outputs = {name: _to_json(value) for name, value in signature(**inputs).items()}
        if "inputs" in request:
            return {"outputs": outputs if len(outputs) > 1 else next(iter(outputs.values()))}
        count = len(next(iter(columns.values())))
        # Rows can be told apart only if every output has one for each.
        assert all(len(values) == count for values in outputs.values()), outputs
        predictions = [{name: v[i] for name, v in outputs.items()} for i in range(count)]
        if len(outputs) == 1:
            predictions = [next(iter(prediction.values())) for prediction in predictions]
        return {"predictions": predictions}


def _to_json(value: tf.Tensor) -> Any:
    array = value.numpy()
    if value.dtype == tf.string:
        array = np.vectorize(lambda text: text.decode(), otypes=[object])(array)
    return array.tolist()
