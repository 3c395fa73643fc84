"""Drawn cases are the same in every run, and may take the time that compiling takes."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "conformance",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("conformance")
