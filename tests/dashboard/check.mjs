// Reads a list of dashboards from standard input and prints, one a line, where one is not of Grafana's own types.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

const base = process.argv[2];
const types = join(base, "node_modules/@grafana/schema/dist/types");
const made = join(base, "checked.ts"); // in memory only
const types_of_ours = `
import type * as grafana from "${types}/raw/dashboard/x/types.gen";
import type { Options as Stat } from "${types}/raw/composable/stat/panelcfg/x/types.gen";
import type { FieldConfig, Options as TimeSeries } from "${types}/raw/composable/timeseries/panelcfg/x/types.gen";
// what Prometheus' own marks and variables have besides, and exports of Grafana hold
type Mark = Omit<grafana.AnnotationQuery, "target"> & { target: { expr: string; interval: string; refId: string };
  titleFormat: string; textFormat: string; useValueForTime: boolean };
type Choice = grafana.VariableModel & { definition?: string };
type Whole = Omit<grafana.Dashboard, "annotations" | "templating"> &
  { annotations: { list: Mark[] }; templating: { list: Choice[] } };
`;
const values = (dashboard, n) => {
  const shown = dashboard.panels.filter((panel) => panel.type !== "row");
  const of = (kind) => JSON.stringify(shown.filter((panel) => panel.type === kind).map((panel) => panel.options));
  const custom = JSON.stringify(shown.map((panel) => panel.fieldConfig.defaults.custom).filter(Boolean));
  return `
export const whole${n}: Whole = ${JSON.stringify(dashboard)};
export const stats${n}: Stat[] = ${of("stat")};
export const charts${n}: TimeSeries[] = ${of("timeseries")};
export const lines${n}: FieldConfig[] = ${custom};
`;
};
const text = types_of_ours + JSON.parse(readFileSync(0, "utf8")).map(values).join("");
const options = {
  strict: true, noEmit: true, skipLibCheck: true, types: [],
  target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler,
};
const host = ts.createCompilerHost(options);
const read = host.readFile.bind(host);
// JSON has strings where the types have enums of strings: the same values, as a choice of strings
const plain = (source) =>
  source.replace(/export declare enum (\w+) \{([^}]*)\}/g, (whole, name, body) => {
    const values = [...body.matchAll(/= ("[^"]*")/g)].map((found) => found[1]);
    return values.length ? `export type ${name} = ${values.join(" | ")};` : whole;
  });
host.fileExists = ((exists) => (name) => name === made || exists(name))(host.fileExists.bind(host));
host.readFile = (name) => (name === made ? text : read(name));
host.getSourceFile = (name, version) => {
  const source = host.readFile(name);
  return source === undefined ? undefined
    : ts.createSourceFile(name, name.startsWith(types) ? plain(source) : source, version, true);
};
const program = ts.createProgram([made], options, host);
const checked = program.getSourceFile(made);
for (const found of [...program.getSyntacticDiagnostics(checked), ...program.getSemanticDiagnostics(checked)]) {
  const which = text.slice(0, found.start).split("export const whole").length - 2;
  console.log(`${which}: ${ts.flattenDiagnosticMessageText(found.messageText, " ").slice(0, 600)}`);
}
