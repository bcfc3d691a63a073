"""Long prompts to a deployment of their own: the same rule for the Gateway API and for Istio."""

from vllmdoctor.manifests.files import File, manifest
from vllmdoctor.manifests.place import Place
from vllmdoctor.model import Step

HEADER, LONG = "x-prompt-length", "long"


def by_length(step: Step, place: Place) -> tuple[File, File]:
    """An HTTPRoute and a VirtualService: one of the two is used."""
    cut = step.after or "4096 tokens"
    long = f"{place.service}-long"
    note = (
        f"Clients, or a filter at the gateway, must set `{HEADER}: {LONG}` on prompts above {cut}; "
        f"a second Deployment behind the Service {long} serves them."
    )
    warning = "use the HTTPRoute or the VirtualService, not both"
    route = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": place.named(f"{place.name}-by-length"),
        "spec": {
            "parentRefs": [{"name": place.gateway}],
            "rules": [
                {
                    "matches": [
                        {
                            "path": {"type": "PathPrefix", "value": "/v1"},
                            "headers": [{"type": "Exact", "name": HEADER, "value": LONG}],
                        }
                    ],
                    "backendRefs": [{"name": long, "port": place.port}],
                },
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}],
                    "backendRefs": [{"name": place.service, "port": place.port}],
                },
            ],
        },
    }
    virtual = {
        "apiVersion": "networking.istio.io/v1",
        "kind": "VirtualService",
        "metadata": place.named(f"{place.name}-by-length"),
        "spec": {
            "hosts": [place.service],
            "http": [
                {
                    "name": "long-prompts",
                    "match": [{"uri": {"prefix": "/v1"}, "headers": {HEADER: {"exact": LONG}}}],
                    "route": [{"destination": {"host": long, "port": {"number": place.port}}}],
                },
                {
                    "name": "all-others",
                    "route": [{"destination": {"host": place.service, "port": {"number": place.port}}}],
                },
            ],
        },
    }
    return (
        manifest(
            "httproute.yaml",
            f"Gateway API: prompts above {cut} go to {long}",
            (route,),
            warning=warning,
            note=note,
        ),
        manifest(
            "virtualservice.yaml",
            f"Istio: prompts above {cut} go to {long}",
            (virtual,),
            warning=warning,
            note=note,
        ),
    )
