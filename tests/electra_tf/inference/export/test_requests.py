"""Requests as clients of a model server build them, and the warm-up file it reads."""

import json

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.wrappers_pb2 import Int64Value
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from tests.electra_tf.inference.export.requests import Server, arrays, predict


@pytest.fixture(scope="module")
def server(exported) -> Server:
    return Server(exported["discriminator"])


def test_grpc(server):
    response = predict(server, "discriminator", text=["w1 w2 w3", "w4"])
    spec = response.model_spec
    assert (spec.name, spec.signature_name) == ("discriminator", "serving_default")
    assert spec.version.value == 1
    outputs = arrays(response)
    assert outputs["tokens"].shape == (2, 5)
    assert outputs["tokens"][1].tolist() == [b"[CLS]", b"w4", b"[SEP]", b"", b""]
    ids = np.array([[2, 6, 7, 8, 3]], np.int32)
    of_ids = arrays(
        predict(
            server,
            "discriminator",
            "tokens",
            ("replaced_probability",),
            input_ids=ids,
            input_mask=np.ones_like(ids),
            segment_ids=np.zeros_like(ids),
        )
    )
    assert list(of_ids) == ["replaced_probability"]
    np.testing.assert_allclose(
        of_ids["replaced_probability"][0], outputs["replaced_probability"][0], atol=1e-5
    )


def test_requests_of_another_signature_are_refused(server):
    with pytest.raises(ValueError, match=r"takes .*'text'.*, not .*'texts'"):
        predict(server, "discriminator", texts=["w1"])
    with pytest.raises(ValueError, match="must be int32, not int64"):
        predict(
            server,
            "discriminator",
            "tokens",
            **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), np.array([[2, 3]])),
        )


def test_rest_rows(server):
    named = server.rest(json.dumps({"instances": [{"text": "w1 w2 w3"}, {"text": "w4"}]}))
    assert named == server.rest(json.dumps({"instances": ["w1 w2 w3", "w4"]}))
    first, second = named["predictions"]
    assert first["tokens"] == ["[CLS]", "w1", "w2", "w3", "[SEP]"]
    assert second["num_tokens"] == 3
    assert second["replaced_probability"][3:] == [0, 0]


def test_rest_columns(server):
    rows = server.rest(json.dumps({"instances": ["w1 w2", "w4"]}))["predictions"]
    columns = server.rest(json.dumps({"inputs": {"text": ["w1 w2", "w4"]}}))["outputs"]
    assert columns["tokens"] == [row["tokens"] for row in rows]
    body = {
        "signature_name": "tokens",
        "inputs": {
            "input_ids": [[2, 6, 7, 3]],
            "input_mask": [[1, 1, 1, 1]],
            "segment_ids": [[0, 0, 0, 0]],
        },
    }
    of_ids = server.rest(json.dumps(body))["outputs"]
    assert of_ids["tokens"] == [rows[0]["tokens"]]


def test_warmup_requests_are_answered(exported):
    for name, path in exported.items():
        server = Server(path)
        file = path / "assets.extra" / "tf_serving_warmup_requests"
        logs = [
            prediction_log_pb2.PredictionLog.FromString(record.numpy())
            for record in tf.data.TFRecordDataset(str(file))
        ]
        requests = [log.predict_log.request for log in logs]
        assert {r.model_spec.signature_name for r in requests} == {"serving_default", "tokens"}
        assert {r.model_spec.name for r in requests} == {name}
        lengths = set()
        for request in requests:
            outputs = predict_pb2.PredictResponse.FromString(
                server.grpc(request.SerializeToString())
            ).outputs
            lengths.add(tuple(tf.make_ndarray(outputs["tokens"]).shape))
        assert {(1, 16), (8, 16)} <= lengths  # the longest rows, in both batch sizes


def batching_parameters() -> type:
    """Returns the message of `--batching_parameters_file`, with its fields of numbers.

    As in tensorflow_serving/servables/tensorflow/session_bundle_config.proto, which
    `tensorflow-serving-api` lacks.
    """
    file = descriptor_pb2.FileDescriptorProto(
        name="batching.proto", package="serving", dependency=[Int64Value.DESCRIPTOR.file.name]
    )
    message = file.message_type.add(name="BatchingParameters")
    names = (
        "max_batch_size",
        "batch_timeout_micros",
        "max_enqueued_batches",
        "num_batch_threads",
    )
    for number, name in enumerate(names, start=1):
        message.field.add(
            name=name, number=number, type=11, label=1, type_name=".google.protobuf.Int64Value"
        )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(Int64Value.DESCRIPTOR.file.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("serving.BatchingParameters")
    )


def test_the_server_can_read_the_parameters_of_batching(exported):
    file = exported["discriminator"] / "assets.extra" / "batching_parameters.txt"
    parameters = text_format.Parse(file.read_text(), batching_parameters()())
    assert parameters.max_batch_size.value == 32
    assert parameters.batch_timeout_micros.value == 1000


def test_texts_of_a_batch_get_the_outputs_of_each_text(server):
    """The server concatenates the texts of several requests, and splits the outputs."""
    texts = ["w1 w2 w3", "w4", "w5 w6"]
    together = arrays(predict(server, "discriminator", text=texts))
    for row, text in enumerate(texts):
        alone = arrays(predict(server, "discriminator", text=[text]))
        count = int(alone["num_tokens"][0])
        np.testing.assert_array_equal(together["tokens"][row][:count], alone["tokens"][0])
        np.testing.assert_allclose(
            together["replaced_probability"][row][:count],
            alone["replaced_probability"][0],
            atol=1e-6,
        )
