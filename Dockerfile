# syntax=docker/dockerfile:1
# Builds with buildah, podman or Docker; needs a package index and the base image, nothing else.
ARG PYTHON_IMAGE=docker.io/library/python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    UV_NO_CACHE=1 \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /src
COPY requirements/tools.txt requirements/run.txt requirements/build.txt requirements/
# The tools stay in this stage; what runs is installed from the hashed lock alone.
RUN python3 -m venv /tools \
 && /tools/bin/pip install --require-hashes -r requirements/tools.txt \
 && /tools/bin/uv venv /opt/venv \
 && /tools/bin/uv pip install --python /opt/venv/bin/python --compile-bytecode --require-hashes -r requirements/run.txt \
 && /tools/bin/uv pip install --python /tools/bin/python --require-hashes -r requirements/build.txt
COPY pyproject.toml LICENSE README.md ./
COPY sidecar/ sidecar/
RUN /tools/bin/python -m hatchling build --target wheel --directory /dist \
 && /tools/bin/uv pip install --python /opt/venv/bin/python --compile-bytecode --no-deps /dist/*.whl

FROM ${PYTHON_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="cursor-sidecar" \
      org.opencontainers.image.description="A Kafka consumer sidecar that recovers cursors it can prove" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, so that Kubernetes can see that it is not root; nothing is written outside /tmp.
USER 65532:65532
# 8460: application API (loopback unless set otherwise). 8461: probes, metrics, read-only state.
EXPOSE 8460 8461
STOPSIGNAL SIGTERM
ENTRYPOINT ["cursor-sidecar"]
CMD ["run"]
