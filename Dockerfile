# The service in a container. See docs/deployment.md; build with: docker build --tag littlestone .
# The wheel is built in one stage, and only what runs is in the other: no compiler, no sources, no
# package index, no secret. Tokens are made beside the learner, in the volume. Base image, build tools
# and dependencies are named by what is in them (digests and hashes), for the Python of constraints.txt.
# The base is named once: `buildah build --from IMAGE` puts another with that Python in its place.
FROM python:3.11.15-slim-bookworm@sha256:d29f48a31a8b408ed19272ca1e7b10ebae13b240a27e862d3d4217c528e2e0c3 AS base

FROM base AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY deploy ./deploy
COPY src ./src
RUN python -m pip install --no-cache-dir --require-hashes \
        --requirement deploy/build-requirements.txt \
    && python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
    && python -m venv /opt/littlestone \
    && /opt/littlestone/bin/python -m pip install --no-cache-dir --require-hashes \
        --requirement deploy/requirements.txt \
    && /opt/littlestone/bin/python -m pip install --no-cache-dir --no-deps --no-index /wheels/littlestone-*.whl

FROM base
LABEL org.opencontainers.image.title="littlestone" \
      org.opencontainers.image.description="Find out what causes the failures in a stream of sensitive events, and publish it with a privacy guarantee." \
      org.opencontainers.image.licenses="MIT"
# A fixed number, so that the owner of a volume stays the same from one image to the next.
RUN groupadd --gid 10001 littlestone \
    && useradd --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin littlestone \
    && install --directory --owner 10001 --group 10001 --mode 0700 /data
COPY --from=build /opt/littlestone /opt/littlestone
# Nothing is written but to /data and /tmp: the root file system may be read-only.
ENV PATH=/opt/littlestone/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MPLCONFIGDIR=/tmp/matplotlib
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
# SIGTERM: batches that have come whole are finished.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/ready', timeout=4)"]
ENTRYPOINT ["littlestone"]
CMD ["serve", "/data/run.db", "--host", "0.0.0.0"]
