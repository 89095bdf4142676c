# The service in a container. See docs/deployment.md; build with: docker build --tag littlestone .
# The wheel is built in one stage, and only what runs is in the other: no compiler, no sources, no
# package index, no secret. Tokens are made beside each learner, in the volume.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && python -m venv /opt/littlestone \
    && /opt/littlestone/bin/python -m pip install --no-cache-dir --constraint constraints.txt \
        "$(ls /wheels/littlestone-*.whl)[serve,parquet]"

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="littlestone" \
      org.opencontainers.image.description="Differentially private online classification, as a service" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.source="https://github.com/littlestone/littlestone"
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
CMD ["serve", "/data", "--host", "0.0.0.0"]
