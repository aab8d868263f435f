// Names for the server's answers, whose shapes `npm run types` makes from ../openapi.json.

import type { components } from "./schema";

type Schemas = components["schemas"];

/** A number, or null where it is not known or may not be seen. */
export type Maybe = number | null;

export type Changes = Required<Schemas["WhatIf"]>;
export type CoRunner = Schemas["PodCoRunner"];
export type Curve = Schemas["Curve"];
export type Division = Schemas["DividedCores"];
export type Fault = Schemas["Fault"];
export type Grant = Schemas["NodeGrant"];
export type History = Schemas["RecordedFigures"];
export type JobDetail = Schemas["JobDetail"];
export type JobPage = Schemas["JobPage"];
export type JobPod = Schemas["PodReason"];
export type JobRow = Schemas["JobRow"];
export type Ledger = Schemas["Quantum"];
export type Loan = Schemas["Lending"];
export type NodeDetail = Schemas["NodeDetail"];
export type NodeRow = Schemas["NodeSummary"];
export type NumaNode = Schemas["NumaNode"];
export type OneMore = Schemas["OneMore"];
export type Overview = Schemas["Overview"];
export type Owner = Schemas["Owner"];
export type PlainUser = Schemas["PlainUser"];
export type Prospect = Schemas["UserOutlook"];
export type Series = Schemas["FigureSeries"];
export type ShortPod = Schemas["ShortPod"];
export type Socket = Schemas["Socket"];
export type Thread = Schemas["Thread"];
export type ThreadState = Thread["state"];
export type User = Schemas["UserSummary"];
export type UserDetail = Schemas["UserDetail"];
export type WhatIfAnswer = Schemas["WhatIfAnswer"];
export type WithoutWalras = Schemas["WithoutWalras"];
