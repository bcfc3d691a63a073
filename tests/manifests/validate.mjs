// Reads {"kind": ..., "object": ...} lines and prints, for each, the errors of its schema as a JSON list.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const SCHEMAS = {
  HTTPRoute: ["gateway-api", "IoK8sSigsGatewayApiApisV1HTTPRoute"],
  VirtualService: ["istio", "NetworkingIstioIoV1VirtualService"],
  ScaledObject: ["keda", "ComGithubKedacoreKedaV2ApisKedaV1alpha1ScaledObject"],
  PrometheusRule: ["prometheus-operator", "ComGithubPrometheusOperatorPrometheusOperatorPkgApisMonitoringV1PrometheusRule"],
};
const base = process.argv[2];
for await (const line of createInterface({ input: process.stdin })) {
  const { kind, object } = JSON.parse(line);
  const [name, file] = SCHEMAS[kind];
  const { validate } = await import(pathToFileURL(`${base}/@kubernetes-models/${name}/_schemas/${file}.js`));
  validate(object);
  console.log(JSON.stringify((validate.errors ?? []).map((e) => `${e.instancePath} ${e.message ?? e.keyword}`)));
}
