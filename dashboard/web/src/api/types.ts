// Names for the server's answers, whose shapes `npm run types` makes from ../openapi.json.

import type { components } from "./schema";

type Schemas = components["schemas"];

/** A number, or null where it is not known or may not be seen. */
export type Maybe = number | null;

export type Budget = Schemas["JobBudget"];
export type Changes = Required<Schemas["WhatIf"]>;
export type CoRunner = Schemas["PodPartner"];
export type Curve = Schemas["Curve"];
export type Division = Schemas["DividedCores"];
export type Fault = Schemas["FailedCondition"];
export type Grant = Schemas["NodeGrant"];
export type History = Schemas["RecordedFigures"];
export type JobDetail = Schemas["JobDetail"];
export type JobPage = Schemas["JobPage"];
export type JobPod = Schemas["JobPod"];
export type JobRow = Schemas["JobSummary"];
export type Ledger = Schemas["QuantumLedger"];
export type Loan = Schemas["Lending"];
export type NodeDetail = Schemas["NodeDetail"];
export type NodeRow = Schemas["NodeSummary"];
export type NumaNode = Schemas["NumaNode"];
export type OneMore = Schemas["OneMoreCore"];
export type Overview = Schemas["Overview"];
export type Owner = Schemas["Owner"];
export type Series = Schemas["FigureSeries"];
export type Socket = Schemas["Socket"];
export type Thread = Schemas["Thread"];
export type ThreadState = Thread["state"];
export type User = Schemas["User"];
export type UserDetail = Schemas["UserDetail"];
export type WhatIfAnswer = Schemas["WhatIfAnswer"];
