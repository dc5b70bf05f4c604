# syntax=docker/dockerfile:1
# The programs in /electra, for CPUs and for NVIDIA GPUs.
#
#   docker build --tag electra .
#   docker build --target gpu --tag electra:gpu .
#   docker run --rm --volume "$PWD/my_data:/electra/my_data" electra \
#     python run_pretraining.py --data-dir my_data --model-name quickstart \
#     --flagfile recipes/quickstart.flags
#   docker run --rm --gpus all --volume "$PWD/my_data:/electra/my_data" electra:gpu python …
#
# The GPU image needs NVIDIA's driver and container toolkit on the host; the CUDA libraries are
# Python packages in the image. For several GPUs, add --ipc=host.
#
# Versions and hashes of all Python packages are locked in requirements/.
ARG PYTHON_VERSION=3.12

FROM python:${PYTHON_VERSION}-slim AS source
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
ENV PYTHONUNBUFFERED=1
WORKDIR /electra
COPY . .
RUN pip install --require-hashes -r requirements/build.txt

FROM source AS gpu
RUN pip install --require-hashes --no-deps --no-build-isolation -r requirements/docker-gpu.txt \
    && pip install --no-deps --no-build-isolation --editable .
CMD ["python", "run_pretraining.py", "--helpshort"]

# The last stage is built by default.
FROM source AS cpu
RUN pip install --require-hashes --no-deps --no-build-isolation -r requirements/docker.txt \
    && pip install --no-deps --no-build-isolation --editable .
CMD ["python", "run_pretraining.py", "--helpshort"]
