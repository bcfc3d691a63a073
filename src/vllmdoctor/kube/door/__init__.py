"""The door to the Kubernetes API: the only package that knows the `kubernetes` library.

Its configuration, credentials, TLS and streams are used; its generated models are not (touching the
first costs another second of CPU). Objects stay the plain JSON that the API server sends.
"""

from vllmdoctor.kube.door.login import current_namespace
from vllmdoctor.kube.door.server import Door, Json

__all__ = ["Door", "Json", "current_namespace"]
