"""The process that serves: a socket, a model, an application."""

from __future__ import annotations

import contextlib
import importlib.util
import ipaddress
import logging
import socket

from mtf_models.errors import ConfigError, DeviceError, require_positive
from mtf_models.runtime.options import ServeOptions
from mtf_models.runtime.using.records import task_of
from mtf_models.runtime.using.trained import load_for_use

_PACKAGES = ("fastapi", "prometheus_client", "uvicorn")

_LAST_PORT = 65535

_log = logging.getLogger("mtf_models")


def run(options: ServeOptions) -> None:
    """Serves until a signal ends it; requests that wait are answered first.

    Raises:
        ConfigError: if packages are missing, or an option does not fit.
        DeviceError: if the address cannot be listened at.
        MtfError: if the model cannot be loaded.
    """
    _require_packages()
    import uvicorn

    from mtf_models.serve.app import make_app
    from mtf_models.serve.engine import Engine

    if options.port > _LAST_PORT:
        raise ConfigError(f"--port={options.port} is no port: give one from 0 to {_LAST_PORT}.")
    require_positive("mtf serve", max_batch=options.max_batch, max_queue=options.max_queue)
    with contextlib.closing(_listening(options.host, options.port)) as listening:
        model, step = load_for_use(options)
        with model.config.active():
            task = task_of(model, options)
        engine = Engine(model, task, step, options.max_batch, options.max_queue, options.max_tokens)
        engine.warm_up()
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        print(f"Serving step {step} of {options.model_dir} at http://{shown}:{port}/")
        print(
            "Requests: POST /v1/generate, /v1/score; described at /docs. Ctrl-C ends.", flush=True
        )
        config = uvicorn.Config(make_app(engine, options.model_dir), log_level="warning")
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
    print("Stopped.")


def _require_packages() -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"Serving needs {', '.join(missing)}, which are not installed: pip install "
            "'mtf_models[serve]'."
        )


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens, before a model is loaded for nothing."""
    try:
        (family, *_, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = socket.create_server(address[:2], family=family)
    except OSError as error:
        raise DeviceError(
            f"Cannot listen at {host} port {port}: {error.strerror}. "
            "Take another --port (0 for any that is free), or another --host."
        ) from error
    if not ipaddress.ip_address(found.getsockname()[0]).is_loopback:
        _log.warning("%s can be reached from other machines, and anybody there may use it.", host)
    return found
