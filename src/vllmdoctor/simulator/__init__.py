"""An event-driven model of a vLLM server and what a Prometheus scrape of it would show.

Three inputs are kept apart: the ``Server``, the load (streams of request classes), and the
``Fault``s. ``simulate`` runs them; ``write_openmetrics`` stores what was scraped; ``truth`` says
what was the matter.
"""

from __future__ import annotations

from vllmdoctor.simulator.openmetrics import write_openmetrics
from vllmdoctor.simulator.scenario import Scenario, simulate, truth
from vllmdoctor.simulator.scenarios import SCENARIOS
from vllmdoctor.simulator.server import Server, Speculation, StepModel
from vllmdoctor.simulator.setup import Companions, Era, Host, Scrape, Setup
from vllmdoctor.simulator.world import Page

__all__ = [
    "SCENARIOS",
    "Companions",
    "Era",
    "Host",
    "Page",
    "Scenario",
    "Scrape",
    "Server",
    "Setup",
    "Speculation",
    "StepModel",
    "simulate",
    "truth",
    "write_openmetrics",
]
