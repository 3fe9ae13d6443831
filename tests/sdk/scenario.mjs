/** The calls of the client against a service, in Node and in a browser alike. */

import { LiveBoard, Rankd, RankdError, readScore } from "../../sdk/javascript/rankd.js";

function equal(found, expected, about) {
  const write = (value) =>
    JSON.stringify(value, (_, each) => (typeof each === "bigint" ? `${each}n` : each));
  if (write(found) !== write(expected)) {
    throw new Error(`${about}: ${write(found)}, not ${write(expected)}`);
  }
}

async function refused(call, code) {
  try {
    await call;
  } catch (error) {
    if (error instanceof RankdError && error.code === code) return error;
    throw error;
  }
  throw new Error(`it was not refused with ${code}`);
}

/** Scores keep every digit, sent and read. */
async function scores(url) {
  const rankd = new Rankd(url);
  const large = 9007199254740993n;
  const receipt = await rankd.submit("big", "ann", large);
  equal(receipt.score, large, "a score beyond 2^53");
  equal((await rankd.top("big", 1)).standings[0].score, large, "the same, read");
  equal((await rankd.add("big", "ann", 1n)).score, large + 1n, "a delta");
  equal(["7", "-0.5", "9007199254740993", "0.1234567890123456"].map(readScore), [7, -0.5, large, "0.1234567890123456"], "texts");
  equal((await rankd.submit("decimals", "ann", "12.34")).score, 12.34, "a decimal");
}

/** Each read answers as the API describes it. */
async function reads(url) {
  const rankd = new Rankd(url);
  const items = [...Array(25).keys()].map((n) => ({ board: "arena", player: `p:${n}`, score: n }));
  equal((await rankd.submitMany(items)).map((one) => one.verdict).includes("rejected"), false, "a batch");
  equal((await rankd.top("arena", 3)).standings.map((row) => row.player), ["p:24", "p:23", "p:22"], "the top");
  const walked = [];
  for await (const row of rankd.walk("arena", { limit: 7 })) walked.push(row.rank);
  equal(walked, [...Array(25).keys()].map((n) => n + 1), "a walk");
  equal((await rankd.standing("arena", "p:3")).rank, 22, "one standing");
  equal(await rankd.standing("arena", "nobody"), null, "no standing");
  equal((await rankd.around("arena", "p:3", { above: 1, below: 1 })).standings.length, 3, "around");
  equal((await rankd.aroundRank("arena", 2, { range: 1 })).standings.length, 3, "around a rank");
  const found = await rankd.lookup("arena", ["p:1", "x"]);
  equal([found.standings[0].place, found.not_found], [1, ["x"]], "a look-up");
  equal((await rankd.projection("arena", { score: 23 })).rank, 3, "a projection");
  equal((await rankd.distribution("arena", { buckets: 5 })).buckets.map((one) => one.count), [5, 5, 5, 5, 5], "a distribution");
  await rankd.updatePlayer("p:1", { name: "Ada" });
  await rankd.setFriends("p:1", ["p:2"]);
  equal((await rankd.friends("arena", "p:1")).standings.map((row) => row.name), [null, "Ada"], "friends");
  equal((await rankd.player("p:1")).friends, ["p:2"], "a player");
  equal((await rankd.standings("p:1")).standings.length, 1, "on every board");
  equal((await rankd.boards()).length > 2, true, "boards");
  equal((await rankd.windows("arena")).map((one) => one.state).includes("open"), true, "windows");
  equal((await rankd.board("arena")).definition.rule, "best", "a board");
}

/** A retry counts once, and what is refused says why. */
async function retries(url) {
  let lost = 2;
  const forgetful = async (...request) => {
    const response = await fetch(...request);
    if (lost-- > 0) throw new TypeError("the answer was lost");
    return response;
  };
  const rankd = new Rankd(url, { fetch: forgetful });
  const receipt = await rankd.add("sums", "ann", 5);
  equal([receipt.score, receipt.duplicate], [5, true], "a retry");
  await refused(rankd.submit("missing", "ann", 1), "unknown_board");
  const error = await refused(rankd.submit("arena", "", 1), "invalid_submission");
  equal([error.status, error.applied, error.errors[0].field], [422, "no", "player"], "a refusal");
  const given = AbortSignal.abort(new Error("given up"));
  await rankd.top("arena", 1, { signal: given }).then(
    () => { throw new Error("an aborted call answered"); },
    (problem) => equal(problem.message, "given up", "an aborted call"),
  );
}

/** A stream shows each change, and a view put together from it is the page. */
async function streams(url) {
  const rankd = new Rankd(url);
  const ended = new AbortController();
  await rankd.submit("live", "ann", 1);
  const seen = [];
  for await (const live of rankd.watch("live", { top: 3, player: "ann", signal: ended.signal })) {
    seen.push(live.standings.map((row) => `${row.rank} ${row.player} ${row.score}`).join(", "));
    if (seen.length === 1) await rankd.submit("live", "bob", 5);
    else if (live.total === 2) await rankd.submit("live", "cyd", 9);
    else if (live.total === 3) break;
  }
  equal(seen.at(-1), "1 cyd 9, 2 bob 5, 3 ann 1", "a stream");
  const board = new LiveBoard();
  for await (const event of rankd.stream("live", { top: 2, signal: ended.signal })) {
    board.apply(event);
    break;
  }
  const page = await rankd.top("live", 2);
  equal(board.standings.map((row) => row.player), page.standings.map((row) => row.player), "a state");
}

export const scenarios = { scores, reads, retries, streams };

/** Run all of them; return the failures. */
export async function run(url) {
  const failures = [];
  for (const [name, scenario] of Object.entries(scenarios)) {
    try {
      await scenario(url);
    } catch (error) {
      failures.push(`${name}: ${error.message}`);
    }
  }
  return failures;
}
