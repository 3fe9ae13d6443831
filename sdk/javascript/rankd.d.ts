/** A score: a number where that is exact, BigInt beyond 2^53, text for long decimals. */
export type Score = number | bigint | string;

export interface Which {
  window?: string;
  segment?: string;
  min_position?: number;
  signal?: AbortSignal;
}

export interface Row {
  rank: number;
  player: string | null;
  name: string | null;
  score: Score;
  rank_change: number | null;
  metadata: unknown;
  new?: boolean;
  raw_score?: Score;
  columns?: Record<string, Score>;
  ordinal?: number;
  place?: number;
  anonymous?: boolean;
}

export type WindowState = "scheduled" | "open" | "grace" | "frozen" | "sealed" | "final";

export interface Read {
  as_of: number;
  exactness: "exact" | "bounded";
  stale: boolean;
}

export interface Ranking extends Read {
  board: string;
  window: string;
  segment: string | null;
  total: number;
  state: WindowState;
  opens_at?: string;
}

export interface Page extends Ranking {
  standings: Row[];
  next_cursor: string | null;
  prev_cursor: string | null;
  count?: number;
}

export interface Standing extends Ranking, Row {
  percentile: number;
  peak_rank?: number | null;
}

export interface Lookup extends Ranking {
  standings: Row[];
  not_found: string[];
}

export interface Projection extends Ranking {
  rank: number | null;
  score: Score | null;
  percentile: number | null;
  columns?: Record<string, Score>;
}

export interface Distribution extends Ranking {
  score_min: Score | null;
  score_max: Score | null;
  buckets: { score_min: Score; score_max: Score; count: number }[];
  quantiles: Record<string, Score>;
}

export type Verdict = "counted" | "not_better" | "held" | "rejected" | "accepted";

export interface InWindow {
  window: string;
  score: Score | null;
  rank: number | null;
  previous_rank: number | null;
  rank_change: number | null;
  total: number;
}

export interface Receipt {
  board: string;
  player: string;
  verdict: Verdict;
  score: Score | null;
  previous_score: Score | null;
  rank: number | null;
  previous_rank: number | null;
  rank_change: number | null;
  total: number;
  percentile: number | null;
  position: number;
  windows: Record<string, InWindow>;
  duplicate?: boolean;
  key?: string;
  columns?: Record<string, Score>;
}

export interface SubmitOptions {
  /** By it the submission counts once; one is made if none is given. */
  key?: string;
  delta?: Score;
  columns?: Record<string, Score>;
  metadata?: unknown;
  attributes?: Record<string, string | number | boolean>;
  build?: string;
  at?: string;
  run?: string;
  lives?: string;
  signal?: AbortSignal;
}

export interface BatchItem extends Omit<SubmitOptions, "signal"> {
  board: string;
  player: string;
  score?: Score;
}

export interface PageOptions extends Which {
  limit?: number;
  offset?: number;
  from_rank?: number;
  cursor?: string;
  score_min?: Score;
  score_max?: Score;
  edition?: number;
  as_of?: number;
  at?: string;
  baseline?: string | number;
}

export interface StreamOptions {
  top?: number;
  player?: string;
  around?: number;
  window?: string;
  segment?: string;
  signal?: AbortSignal;
}

export interface StateEvent {
  event: "state";
  position: number;
  resumed: boolean;
  board: string;
  window: string;
  segment: string | null;
  top: number;
  player?: string;
  around?: number;
  total: number;
  as_of: number;
  stale: boolean;
  standings: Row[];
  state: WindowState;
  opens_at?: string;
}

export interface ChangeEvent {
  event: "change";
  position: number;
  total: number;
  stale?: boolean;
  rows: Row[];
  left: string[];
}

export interface OvertakenEvent {
  event: "overtaken";
  position: number;
  player: string;
  by: string | null;
  rank: number;
}

export interface WindowEvent {
  event: "window";
  position: number;
  board: string;
  window: string;
  state: WindowState;
  opens_at?: string;
}

export type StreamEvent = StateEvent | ChangeEvent | OvertakenEvent | WindowEvent;

export class RankdError extends Error {
  readonly status: number;
  readonly code: string;
  /** `"no"` if certainly nothing was applied, `"unknown"` if it may have been; null for reads. */
  readonly applied: "no" | "unknown" | null;
  readonly errors: { field: string; message: string }[];
  readonly requestId: string | null;
  readonly retryAfter: number | null;
}

export function readScore(text: string): Score;

export interface Options {
  token?: string;
  timeout?: number;
  retries?: number;
  fetch?: typeof fetch;
}

export class Rankd {
  constructor(url: string, options?: Options);
  readonly url: string;
  submit(board: string, player: string, score: Score | undefined, options?: SubmitOptions): Promise<Receipt>;
  add(board: string, player: string, delta: Score, options?: Omit<SubmitOptions, "delta">): Promise<Receipt>;
  submitMany(scores: BatchItem[], options?: { signal?: AbortSignal }): Promise<(Receipt | Record<string, unknown>)[]>;
  startRun(board: string, player: string): Promise<{ run: string; seed: string; not_before: string; expires_at: string }>;
  top(board: string, limit?: number, options?: PageOptions): Promise<Page>;
  page(board: string, options?: PageOptions): Promise<Page>;
  walk(board: string, options?: PageOptions): AsyncGenerator<Row>;
  standing(board: string, player: string, options?: Which): Promise<Standing | null>;
  around(board: string, player: string, options?: Which & { above?: number; below?: number; absent?: "top" | "bottom" }): Promise<Page>;
  aroundRank(board: string, rank: number, options?: Which & { range?: number }): Promise<Page>;
  lookup(board: string, players: string[], options?: Which): Promise<Lookup>;
  friends(board: string, player: string, options?: Which): Promise<Lookup>;
  projection(board: string, options: Which & { score?: Score; rank?: number; percentile?: number }): Promise<Projection>;
  distribution(board: string, options?: Which & { buckets?: number }): Promise<Distribution>;
  standings(player: string, options?: { window?: string; signal?: AbortSignal }): Promise<Read & { player: string; name: string | null; standings: Record<string, unknown>[] }>;
  history(board: string, player: string, options?: { limit?: number; before?: number; since?: string; until?: string; signal?: AbortSignal }): Promise<Record<string, unknown>>;
  boards(options?: { signal?: AbortSignal }): Promise<Record<string, any>[]>;
  board(board: string, options?: { signal?: AbortSignal }): Promise<Record<string, any>>;
  windows(board: string, options?: { signal?: AbortSignal }): Promise<Record<string, any>[]>;
  player(player: string, options?: { signal?: AbortSignal }): Promise<Record<string, any>>;
  updatePlayer(player: string, profile: { name?: string | null; attributes?: Record<string, string | number | boolean | null>; visibility?: "public" | "friends" | "anonymous" }): Promise<Record<string, any>>;
  setFriends(player: string, friends: string[]): Promise<Record<string, any>>;
  stream(board: string, options?: StreamOptions): AsyncGenerator<StreamEvent>;
  watch(board: string, options?: StreamOptions): AsyncGenerator<LiveBoard>;
}

export class LiveBoard {
  position: number | null;
  total: number;
  window: string;
  segment: string | null;
  state: WindowState;
  stale: boolean;
  top: number;
  apply(event: StreamEvent): boolean;
  readonly rows: Row[];
  readonly standings: Row[];
}
