"""JSON schemas of request bodies that routes read as plain objects and the model validates.

Written by hand, for the OpenAPI document only. No request is checked against them, so
``tests/http`` sends bodies that they describe and checks the responses.
"""

from typing import Any

from rankd.api.clock import AHEAD_SECONDS_MAX
from rankd.api.keys import EXPIRES_LENGTH_MAX, KEY_BOARDS_MAX, SCOPES
from rankd.api.keys import TITLE_LENGTH_MAX as KEY_TITLE_LENGTH_MAX
from rankd.api.scores import BATCH_SCORES_MAX
from rankd.core.reader import LOOKUP_PLAYERS_MAX
from rankd.core.webhook_delivery import WEBHOOK_BOARDS_MAX
from rankd.core.webhooks import EVENTS
from rankd.core.window_control import WINDOW_TEXT_LENGTH_MAX
from rankd.model.board import (
    ATTEMPTS_MAX,
    BOARD_NAME_LENGTH_MAX,
    COLUMN_NAME_LENGTH_MAX,
    COLUMNS_MAX,
    DECIMALS_MAX,
    SCORE_MAX,
    SCORE_MIN,
    SEGMENT_NAME_LENGTH_MAX,
    SEGMENTS_MAX,
    TITLE_LENGTH_MAX,
    VERIFIER_NAME_LENGTH_MAX,
    WINDOWS_MAX,
    Direction,
    ScoreRule,
    TieBreak,
    Writes,
)
from rankd.model.correction import (
    RETRACTED_PLAYERS_MAX,
    RETRACTED_POSITIONS_MAX,
    STATE_BOARDS_MAX,
    WINDOW_BYTES_MAX,
)
from rankd.model.profile import (
    FRIENDS_MAX,
    NAME_BYTES_MAX,
    NAME_GRAPHEMES_MAX,
    REASON_LENGTH_MAX,
    VISIBILITIES,
)
from rankd.model.rewards import GIVE_BYTES_MAX, REWARD_BANDS_MAX, REWARDS_MAX
from rankd.model.rules import (
    RULES_MAX,
    SCORES_SEEN_MAX,
    SECONDS_BETWEEN_MAX,
    TIMES_MAX,
    Consequence,
    RuleName,
)
from rankd.model.runs import RUN_SECONDS_DEFAULT, RUN_SECONDS_MAX
from rankd.model.standing import TieRule
from rankd.model.submission import (
    ATTRIBUTE_TEXT_BYTES_MAX,
    ATTRIBUTES_MAX,
    BUILD_BYTES_MAX,
    PLAYER_ID_BYTES_MAX,
    SUBMISSION_KEY_BYTES_MAX,
)
from rankd.model.urls import URL_LENGTH_MAX
from rankd.signatures import ALGORITHMS

Schema = dict[str, Any]

NAME_PATTERN = "^[A-Za-z0-9_.-]+$"
SCORE_PATTERN = r"^-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,9})?$"
DURATION_PATTERN = "^[0-9]+[wdhms]([0-9]+[wdhms])*$"
PRINTABLE = r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]+$"


def ref(name: str) -> Schema:
    """Return a reference to a component schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def text(length_max: int, doc: str = "", **more: Any) -> Schema:
    """Return the schema of a printable, non-empty string."""
    described = {"type": "string", "minLength": 1, "maxLength": length_max, "pattern": PRINTABLE}
    return {**described, **({"description": doc} if doc else {}), **more}


def name(length_max: int, doc: str = "") -> Schema:
    """Return the schema of a name that is safe in a URL, a store's key and a shell."""
    return text(length_max, doc, pattern=NAME_PATTERN)


def maybe(schema: Schema) -> Schema:
    """Return a schema that also allows null, which means the default, as an absent field does."""
    doc = {"description": schema["description"]} if "description" in schema else {}
    inner = {key: value for key, value in schema.items() if key != "description"}
    return {"anyOf": [inner, {"type": "null"}], **doc}


def choice(choices: Any, default: str, doc: str) -> Schema:
    """Return the schema of an optional enum."""
    return maybe({"enum": [str(one) for one in choices], "default": default, "description": doc})


def fields(doc: str, properties: Schema, required: tuple[str, ...] = (), **more: Any) -> Schema:
    """Return the schema of an object of exactly these fields."""
    described = {"type": "object", "description": doc, "properties": properties}
    if required:
        described["required"] = list(required)
    return {**described, "additionalProperties": False, **more}


PLAYER = text(PLAYER_ID_BYTES_MAX, f"The player's id, {PLAYER_ID_BYTES_MAX} bytes at most.")
SUBMITTED_PLAYER = {
    **PLAYER,
    "description": f"The player's id, {PLAYER_ID_BYTES_MAX} bytes at most, of which something can "
    "be seen, without characters that turn text around, such as U+202E.",
}
SCORE: Schema = {
    "description": "A whole number of 64 bits, or a number with the decimals its board declares. "
    "As text it keeps every digit.",
    "anyOf": [
        {"type": "integer", "minimum": SCORE_MIN, "maximum": SCORE_MAX},
        {"type": "number", "exclusiveMinimum": -1e15, "exclusiveMaximum": 1e15},
        {"type": "string", "pattern": SCORE_PATTERN, "maxLength": 32},
    ],
}
ATTRIBUTES: Schema = {
    "type": "object",
    "description": "Attributes for segments: region, country, level.",
    "maxProperties": ATTRIBUTES_MAX,
    "propertyNames": {"pattern": NAME_PATTERN, "maxLength": SEGMENT_NAME_LENGTH_MAX},
    "additionalProperties": {
        "anyOf": [
            text(ATTRIBUTE_TEXT_BYTES_MAX),
            {"type": "integer", "minimum": SCORE_MIN, "maximum": SCORE_MAX},
            {"type": "boolean"},
        ]
    },
}
_LIVES: Schema = {"type": "string", "pattern": DURATION_PATTERN, "maxLength": 32}
_SUBMISSION: Schema = {
    "player": SUBMITTED_PLAYER,
    "score": maybe(SCORE),
    "delta": maybe({**SCORE, "description": "Added to the score the player has, 0 if none."}),
    "columns": maybe(
        {
            "type": "object",
            "description": "A score for each column, on boards that have several.",
            "maxProperties": COLUMNS_MAX,
            "additionalProperties": SCORE,
        }
    ),
    "key": maybe(
        text(
            SUBMISSION_KEY_BYTES_MAX,
            "The submission key: sent again, the submission counts once. "
            "The header Idempotency-Key is the same.",
        )
    ),
    "metadata": {
        "description": "Anything, shown with the run that counts; 2 KiB as JSON, "
        "whole numbers of 64 bits at most, no U+0000."
    },
    "attributes": maybe(ATTRIBUTES),
    "build": maybe(text(BUILD_BYTES_MAX, "The version of the game.")),
    "at": maybe(
        {
            "type": "string",
            "format": "date-time",
            "description": "When it happened. Kept as data; order goes by arrival. "
            "A retry under the same key may say another.",
        }
    ),
    "run": maybe(
        {"type": "string", "description": "The token of a run, which counts once, in its time."}
    ),
    "lives": maybe(
        {**_LIVES, "description": "How long it counts, such as 24h; ten years at most."}
    ),
    "signature": {"type": "null", "description": "Goes into the header Rankd-Signature."},
}
_ONE_OF_THEM = [{"required": ["score"]}, {"required": ["delta"]}, {"required": ["columns"]}]
BOARD_NAME = name(BOARD_NAME_LENGTH_MAX, "The name of a board.")

SUBMISSION = fields(
    "A score to be counted, or something to be added to one.",
    {**_SUBMISSION, "board": maybe({**BOARD_NAME, "description": "That of the path."})},
    ("player",),
    anyOf=_ONE_OF_THEM,
    examples=[{"player": "p42", "score": 4500, "key": "m:9981"}, {"player": "p42", "delta": 50}],
)
BATCH_SUBMISSION = fields(
    "A score to be counted on any board.",
    {**_SUBMISSION, "board": BOARD_NAME},
    ("board", "player"),
    anyOf=_ONE_OF_THEM,
)
BATCH: Schema = {
    "type": "object",
    "description": "Many submissions, to any boards. Each is judged for itself.",
    "properties": {
        "scores": {
            "type": "array",
            "minItems": 1,
            "maxItems": BATCH_SCORES_MAX,
            "items": {
                "anyOf": [
                    ref("BatchSubmission"),
                    {"description": "Anything else is refused in its place."},
                ]
            },
        }
    },
    "required": ["scores"],
    "additionalProperties": False,
    "examples": [
        {
            "scores": [
                {"board": "global", "player": "p1", "score": 10},
                {"board": "weekly-cup", "player": "p1", "delta": 1},
            ]
        }
    ],
}

_MOMENT: Schema = {"type": "string", "maxLength": 64}
_DURATION: Schema = {"type": "string", "pattern": DURATION_PATTERN, "maxLength": 32}
DECAY: Schema = {
    "type": "object",
    "properties": {
        "half_life": maybe({**_DURATION, "description": "A score is halved in each: 7d."}),
        "linear": maybe(
            {
                "type": "object",
                "properties": {
                    "points": {**SCORE, "description": "Above 0: what a score loses in each."},
                    "per": {**_DURATION, "description": "such as 1d"},
                },
                "required": ["points", "per"],
                "additionalProperties": False,
            }
        ),
        "floor": maybe({**SCORE, "description": "Where linear decay ends."}),
    },
    "additionalProperties": False,
    "description": "How scores become less with time: by a half-life, or linear to a floor.",
}
WINDOW: Schema = {
    "anyOf": [
        {"enum": ["all", "daily", "weekly", "monthly"]},
        {
            "type": "object",
            "properties": {
                "name": name(32),
                "every": {**_DURATION, "description": "such as 4w"},
                "rolling": {
                    **_DURATION,
                    "description": "so many whole days, today included, such as 7d",
                },
                "gap": {**_DURATION, "description": "of nobody's time between two, such as 2d"},
                "grace": {
                    **_DURATION,
                    "description": "how long approvals count after its end, such as 10m",
                },
                "start": {**_MOMENT, "description": "RFC 3339"},
                "end": {**_MOMENT, "description": "RFC 3339, for a window of one time"},
                "cron": {"type": "string", "maxLength": 128, "description": "such as 0 5 * * *"},
                "at": {"type": "string", "description": "the time of day a calendar window turns"},
                "week_starts": {"type": "string", "description": "the weekday a week begins"},
            },
            "required": ["name"],
        },
    ]
}
COLUMN = fields(
    "One of the numbers an entry is ordered by.",
    {
        "name": name(COLUMN_NAME_LENGTH_MAX),
        "direction": maybe(
            {
                "enum": [str(one) for one in Direction],
                "description": "Which scores are better. Where it is absent, the board's.",
            }
        ),
    },
    ("name",),
)
_RULE = fields(
    "A rule against cheating: the number that it observes, its limit, and the consequence.",
    {
        "rule": {"enum": [str(one) for one in RuleName]},
        "then": {"enum": [str(one) for one in Consequence]},
        "max": maybe(SCORE),
        "min": maybe({"type": "number", "exclusiveMinimum": 0, "maximum": SECONDS_BETWEEN_MAX}),
        "times": maybe({"type": "number", "minimum": 1, "maximum": TIMES_MAX}),
        "quantile": maybe({"type": "number", "minimum": 0.5, "exclusiveMaximum": 1}),
        "after": maybe({"type": "integer", "minimum": 1, "maximum": SCORES_SEEN_MAX}),
    },
    ("rule", "then"),
)
_REWARD_BAND: Schema = {
    "type": "object",
    "description": "Places of a ranking, and what each of them gets.",
    "properties": {
        "ranks": maybe(
            {
                "type": "array",
                "items": {"type": "integer", "minimum": 1, "maximum": REWARDS_MAX},
                "minItems": 2,
                "maxItems": 2,
                "description": "The first and the last rank.",
            }
        ),
        "top_percent": maybe(
            {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": 100,
                "description": "Instead of ranks: the best part of all players.",
            }
        ),
        "give": {"description": f"Any JSON of at most {GIVE_BYTES_MAX} bytes."},
        "amount": maybe(
            {
                "anyOf": [
                    {"type": "number", "exclusiveMinimum": 0},
                    {"type": "string", "pattern": r"^(0|[1-9][0-9]{0,18})(\.[0-9]{1,9})?$"},
                ],
                "description": "Of each place. The last digit written is its smallest unit.",
            }
        ),
        "share": maybe(
            {
                "type": "boolean",
                "default": False,
                "description": "Whether tied players share the amounts of their places.",
            }
        ),
        "window": maybe({"type": "string", "description": "The name of its windows; else all."}),
    },
    "oneOf": [
        {"required": ["ranks"], "properties": {"ranks": {"type": "array"}}},
        {"required": ["top_percent"], "properties": {"top_percent": {"type": "number"}}},
    ],
    "additionalProperties": False,
}
BOARD_DEFINITION = fields(
    "The rules of a board. Every field may be left out, or null, which means its default.",
    {
        "title": maybe(text(TITLE_LENGTH_MAX)),
        "direction": choice(Direction, "higher", "Whether higher or lower scores are better."),
        "columns": maybe(
            {
                "type": "array",
                "items": COLUMN,
                "minItems": 1,
                "maxItems": COLUMNS_MAX,
                "description": "Several numbers, compared one after the other.",
            }
        ),
        "rule": choice(ScoreRule, "best", "How a new score combines with the one counted."),
        "decimals": maybe({"type": "integer", "minimum": 0, "maximum": DECIMALS_MAX, "default": 0}),
        "ties": choice(TieRule, "ordinal", "1-2-3-4, standard 1-2-2-4 or dense 1-2-2-3."),
        "tie_break": choice(TieBreak, "first", "The tie-break among equal scores."),
        "windows": maybe(
            {
                "type": "array",
                "items": WINDOW,
                "minItems": 1,
                "maxItems": WINDOWS_MAX,
                "default": ["all"],
                "description": "The stretches of time in which scores count.",
            }
        ),
        "time_zone": maybe(
            {
                "type": "string",
                "maxLength": 64,
                "default": "UTC",
                "description": "The time zone of the windows: an IANA name such as Europe/Berlin.",
            }
        ),
        "segments": maybe(
            {
                "type": "array",
                "items": name(SEGMENT_NAME_LENGTH_MAX),
                "maxItems": SEGMENTS_MAX,
                "uniqueItems": True,
                "description": "Attributes of players to rank by, each on its own.",
            }
        ),
        "decay": maybe(DECAY),
        "limits": maybe(
            {
                "type": "object",
                "properties": {
                    "score_min": maybe(SCORE),
                    "score_max": maybe(SCORE),
                    "gain_per_minute_max": maybe(SCORE),
                    "submissions_per_minute_max": maybe({"type": "integer", "minimum": 1}),
                    "attempts_max": maybe(
                        {
                            "type": "integer",
                            "minimum": 1,
                            "maximum": ATTEMPTS_MAX,
                            "description": "How many submissions of a player a window takes.",
                        }
                    ),
                },
                "additionalProperties": False,
                "description": "Bounds of plausible scores.",
            }
        ),
        "rules": maybe(
            {
                "type": "array",
                "maxItems": RULES_MAX,
                "items": _RULE,
                "description": "Rules against cheating. Rates in `limits` are rules that refuse.",
            }
        ),
        "writes": choice(
            Writes,
            "server",
            "Who submits: keys alone (server); also players' tokens, with a run or a signature "
            "(signed); also players' tokens alone (client).",
        ),
        "runs": maybe(
            {
                "type": "object",
                "properties": {
                    "seconds_min": maybe(
                        {"type": "integer", "minimum": 0, "maximum": RUN_SECONDS_MAX, "default": 0}
                    ),
                    "seconds_max": maybe(
                        {
                            "type": "integer",
                            "minimum": 1,
                            "maximum": RUN_SECONDS_MAX,
                            "default": RUN_SECONDS_DEFAULT,
                        }
                    ),
                    "required": maybe({"type": "boolean", "default": False}),
                },
                "additionalProperties": False,
                "description": "How long a run lasts, and whether every score needs one.",
            }
        ),
        "verifier": maybe(
            {
                "type": "object",
                "properties": {
                    "name": maybe(name(VERIFIER_NAME_LENGTH_MAX)),
                    "url": maybe({"type": "string", "maxLength": URL_LENGTH_MAX}),
                    "key": maybe({"type": "string", "pattern": "^[0-9a-f]{12}$"}),
                },
                "oneOf": [
                    {"required": ["name"], "properties": {"name": {"type": "string"}}},
                    {"required": ["url"], "properties": {"url": {"type": "string"}}},
                ],
                "additionalProperties": False,
                "description": "Holds every score until its verifier, or a moderator, has decided.",
            }
        ),
        "prize": maybe({"type": "boolean", "default": False}),
        "retention": maybe(
            {
                "type": "object",
                "additionalProperties": _DURATION,
                "description": "How long closed windows are kept, by name: 30d.",
            }
        ),
        "expires": maybe({**_MOMENT, "description": "When the board is retired, RFC 3339."}),
        "public_corrections": maybe(
            {
                "type": "boolean",
                "default": False,
                "description": "Whether readers may list the corrections, without the players.",
            }
        ),
        "rewards": maybe(
            {
                "type": "array",
                "maxItems": REWARD_BANDS_MAX,
                "items": _REWARD_BAND,
                "description": "What a settled window gives to whom, one reward a player and band.",
            }
        ),
    },
    examples=[{"windows": ["all", "daily", "weekly"], "segments": ["region"]}],
)

_FRIENDS: Schema = {"type": "array", "items": PLAYER, "maxItems": FRIENDS_MAX}
_PLAYER_NAME = maybe(
    text(
        NAME_BYTES_MAX,
        f"Up to {NAME_GRAPHEMES_MAX} letters as people count them and {NAME_BYTES_MAX} "
        "bytes; something can be seen, no control or direction characters.",
    )
)
_VISIBILITY: Schema = maybe(
    {
        "type": "string",
        "enum": list(VISIBILITIES),
        "description": "Which readers are shown the player: all of them, it and its friends, or "
        "it alone. The game's own keys are shown every player. null is public.",
    }
)
PLAYER_PROFILE = fields(
    "A player's name, attributes, friends and visibility. Fields left out stay; null removes one.",
    {
        "name": _PLAYER_NAME,
        "attributes": maybe(
            {**ATTRIBUTES, "description": "All attributes of the player: region, country."}
        ),
        "friends": maybe({**_FRIENDS, "description": "All of them."}),
        "visibility": _VISIBILITY,
    },
    examples=[{"name": "Ada", "attributes": {"region": "eu"}}, {"name": "Ada Lovelace"}],
)
PLAYER_PATCH = fields(
    "Changes of a player's profile. Fields left out stay as they are; null removes one.",
    {
        "name": _PLAYER_NAME,
        "attributes": maybe(
            {
                **ATTRIBUTES,
                "additionalProperties": maybe(ATTRIBUTES["additionalProperties"]),
                "description": "Those that change; null forgets one, the others stay.",
            }
        ),
        "friends": maybe({**_FRIENDS, "description": "All of them."}),
        "visibility": _VISIBILITY,
    },
    examples=[{"attributes": {"region": "eu", "guild": None}}],
)
PLAYER_FRIENDS = fields(
    "A player's friends, all of them.",
    {"friends": _FRIENDS},
    ("friends",),
    examples=[{"friends": ["p1", "p9"]}],
)
TICKET_REQUEST: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "board": {
            "type": ["string", "null"],
            "description": "A key that is for some boards names one of them.",
        }
    },
}

LOOKUP: Schema = {
    "type": "object",
    "description": "Who is asked for.",
    "properties": {"players": {"type": "array", "items": PLAYER, "maxItems": LOOKUP_PLAYERS_MAX}},
    "required": ["players"],
    "additionalProperties": False,
    "examples": [{"players": ["p1", "p9"]}],
}
NEW_KEY = fields(
    "What a key is to be for.",
    {
        "scopes": {
            "type": "array",
            "items": {"enum": list(SCOPES)},
            "description": "What it opens; none for a key that signs.",
        },
        "signing": maybe(
            {
                "enum": [*ALGORITHMS, "webhook"],
                "description": "Of a key that signs submissions; or webhook, for one by which "
                "the service signs its requests to a verifier.",
            }
        ),
        "public_key": maybe(text(44, "Of ed25519: 32 bytes as base64url.")),
        "boards": maybe(
            {
                "type": "array",
                "items": BOARD_NAME,
                "minItems": 1,
                "maxItems": KEY_BOARDS_MAX,
                "description": "The boards it is for; all if absent.",
            }
        ),
        "title": maybe(text(KEY_TITLE_LENGTH_MAX, "What people call it.")),
        "expires": maybe(
            text(EXPIRES_LENGTH_MAX, "A duration such as 90d, a date or a time; never if absent.")
        ),
    },
    (),
    examples=[{"scopes": ["submit"], "boards": ["global"], "title": "game server"}],
)

WEBHOOK = fields(
    "Where events are posted to, and which.",
    {
        "url": {"type": "string", "minLength": 1, "maxLength": URL_LENGTH_MAX},
        "events": {"type": "array", "items": {"enum": list(EVENTS)}, "minItems": 1},
        "boards": maybe(
            {
                "type": "array",
                "items": {"anyOf": [BOARD_NAME, {"const": "*"}]},
                "minItems": 1,
                "maxItems": WEBHOOK_BOARDS_MAX,
                "description": "Names of boards, or * for all; all if absent.",
            }
        ),
    },
    ("url", "events"),
)

REPLAY = fields(
    "From which position on events are delivered again.",
    {"from": {"type": "integer", "minimum": 1}},
    ("from",),
    examples=[{"from": 1}],
)

CLOCK_CORRECTION = fields(
    "From which position on the time was wrong, and by how much.",
    {
        "first": maybe(
            {
                "type": "integer",
                "minimum": 1,
                "description": "The first fact later than the clock if it is absent.",
            }
        ),
        "ahead_seconds": maybe(
            {
                "type": "number",
                "minimum": 0,
                "maximum": AHEAD_SECONDS_MAX,
                "description": "The jump of the time at that fact if it is absent.",
            }
        ),
        "reason": maybe(text(REASON_LENGTH_MAX, "Kept in the audit trail.")),
        "dry_run": {"type": "boolean", "description": "Tell what would change only."},
    },
    (),
    examples=[{"dry_run": True}],
)

_REASON = maybe(text(REASON_LENGTH_MAX, "Kept in the audit trail."))
_TIME = {"type": "string", "format": "date-time"}
ADJUSTMENT = fields(
    "A correction of a player's score in every open window.",
    {
        "player": PLAYER,
        "score": maybe(SCORE),
        "delta": maybe({**SCORE, "description": "Added to the score the player has, 0 if none."}),
        "columns": _SUBMISSION["columns"],
        "key": _SUBMISSION["key"],
        "metadata": _SUBMISSION["metadata"],
        "reason": _REASON,
    },
    ("player",),
    anyOf=_ONE_OF_THEM,
    examples=[{"player": "p42", "delta": -50, "reason": "counted twice in the final"}],
)
_POSITION: Schema = {"type": "integer", "minimum": 1, "maximum": 2**63 - 1}
RETRACTION = fields(
    "The submissions that are to count no more: all conditions that are given must hold.",
    {
        "position": maybe({**_POSITION, "description": "That of the submission."}),
        "positions": maybe(
            {
                "type": "array",
                "items": _POSITION,
                "minItems": 1,
                "maxItems": RETRACTED_POSITIONS_MAX,
                "description": "Those of several submissions.",
            }
        ),
        "key": maybe(text(SUBMISSION_KEY_BYTES_MAX, "The submission key, on one board.")),
        "player": maybe(PLAYER),
        "players": maybe(
            {
                "type": "array",
                "items": PLAYER,
                "minItems": 1,
                "maxItems": RETRACTED_PLAYERS_MAX,
                "description": "Several players.",
            }
        ),
        "build": maybe(text(BUILD_BYTES_MAX, "The build of the game.")),
        "since": maybe({**_TIME, "description": "Recorded at this time or later."}),
        "until": maybe({**_TIME, "description": "Recorded before this time."}),
        "score_min": maybe(
            {
                **SCORE,
                "description": "Of the players whose entry in `window` has this score or more, in "
                f"the first column; {RETRACTED_PLAYERS_MAX} players at most.",
            }
        ),
        "score_max": maybe({**SCORE, "description": "The same: this score or less."}),
        "window": maybe(text(WINDOW_BYTES_MAX, "That of score_min and score_max.")),
        "reason": _REASON,
    },
    anyOf=[
        {"required": [name]}
        for name in (
            *("position", "positions", "key", "player", "players", "build", "since", "until"),
            *("score_min", "score_max"),
        )
    ],
    examples=[{"player": "p42", "reason": "a bot"}, {"build": "1.2.3"}, {"position": 123456}],
)
METADATA = fields(
    "The metadata of a player's entries in the open windows; null removes it.",
    {"metadata": {"description": "Any JSON."}},
    ("metadata",),
    examples=[{"metadata": {"car": "red"}}],
)
PLAYER_STATE = fields(
    "The reason of a state of a player, its boards and its end.",
    {
        "reason": _REASON,
        "until": maybe({**_TIME, "description": "When it ends by itself; never if absent."}),
        "boards": maybe(
            {
                "type": "array",
                "items": BOARD_NAME,
                "minItems": 1,
                "maxItems": STATE_BOARDS_MAX,
                "description": "The boards it is for; all if absent.",
            }
        ),
    },
    examples=[{"reason": "a bot", "until": "2027-01-01T00:00:00Z"}],
)

WINDOW_REQUEST = fields(
    "The window that takes a step, and why.",
    {
        "window": {
            "type": "string",
            "minLength": 1,
            "maxLength": WINDOW_TEXT_LENGTH_MAX,
            "description": "Such as daily, or the id of one, such as daily:2026-11-14.",
        },
        "reason": text(REASON_LENGTH_MAX, "Kept in the audit trail."),
    },
    ("window", "reason"),
    examples=[{"window": "daily", "reason": "a broken build"}],
)

_CLASSIC_ID: Schema = {
    "anyOf": [{"type": "integer", "minimum": SCORE_MIN, "maximum": SCORE_MAX}, PLAYER],
    "description": "Given as a number or as text, and answered so.",
}
CLASSIC_SCORE = fields(
    "A score in the words of the well-known texts.",
    {
        "player_id": maybe(_CLASSIC_ID),
        "user_id": maybe({**_CLASSIC_ID, "description": "The same as player_id."}),
        "score": maybe(SCORE),
        "score_delta": maybe({**SCORE, "description": "Added to the score there is."}),
        "leaderboard_type": maybe(
            {**BOARD_NAME, "description": "The board; global if absent. Made if it is missing."}
        ),
        "type": maybe({**BOARD_NAME, "description": "The same as leaderboard_type."}),
        "match_id": maybe(
            {
                "anyOf": [text(PLAYER_ID_BYTES_MAX), {"type": "integer"}],
                "description": "Counts once for each player.",
            }
        ),
        "game_id": {"description": "Kept with the score."},
        "timestamp": maybe(
            {
                "anyOf": [
                    {"type": "string", "format": "date-time"},
                    {"type": "number", "minimum": 0, "maximum": 253402300799},
                ],
                "description": "RFC 3339, or seconds since 1970. Kept as data.",
            }
        ),
        "ts": maybe({"type": "number", "minimum": 0, "maximum": 253402300799}),
    },
    anyOf=[
        {"required": [id, score]}
        for id in ("player_id", "user_id")
        for score in ("score", "score_delta")
    ],
    examples=[
        {"player_id": 12345, "score": 1500, "leaderboard_type": "global"},
        {"user_id": "12345", "score_delta": 50},
    ],
)

NEW_RUN = fields(
    "The player that is about to play.",
    {"player": PLAYER},
    ("player",),
    examples=[{"player": "p42"}],
)
REVIEW_DECISION = fields("The reason of a decision.", {"reason": _REASON})

BY_OPERATION: dict[str, Schema] = {
    "put_board": ref("BoardDefinition"),
    "submit_score": ref("Submission"),
    "submit_scores": ref("Batch"),
    "lookup_standings": ref("Lookup"),
    "lookup_players": ref("Lookup"),
    "create_ticket": ref("TicketRequest"),
    "put_player": ref("PlayerProfile"),
    "patch_player": ref("PlayerPatch"),
    "put_friends": ref("PlayerFriends"),
    "start_run": ref("NewRun"),
    "create_key": ref("NewKey"),
    "put_webhook": ref("WebhookRequest"),
    "replay_webhook": ref("ReplayRequest"),
    "correct_clock": ref("ClockCorrection"),
    "adjust_score": ref("Adjustment"),
    "retract_scores": ref("RetractionRequest"),
    "retract_everywhere": ref("RetractionRequest"),
    "patch_standing": ref("StandingPatch"),
    "ban_player": ref("PlayerStateRequest"),
    "hide_player": ref("PlayerStateRequest"),
    "shadow_player": ref("PlayerStateRequest"),
    "restore_player": ref("PlayerStateRequest"),
    "reset_window": ref("WindowRequest"),
    "freeze_window": ref("WindowRequest"),
    "settle_window": ref("WindowRequest"),
    "approve_review": ref("ReviewDecision"),
    "reject_review": ref("ReviewDecision"),
    "classic_score": ref("ClassicScore"),
    "classic_increment": ref("ClassicScore"),
    "classic_user_score": ref("ClassicScore"),
    "classic_ingest": ref("ClassicScore"),
    "classic_scores": ref("ClassicScore"),
}
"""The body of each route that reads one."""

OPTIONAL_BODIES = frozenset(
    (
        "put_board",
        *("ban_player", "hide_player", "shadow_player", "restore_player"),
        *("approve_review", "reject_review"),
        "create_ticket",
    )
)
"""Operations that also take no body."""

COMPONENTS: dict[str, Schema] = {
    "BoardDefinition": BOARD_DEFINITION,
    "Submission": SUBMISSION,
    "NewRun": NEW_RUN,
    "BatchSubmission": BATCH_SUBMISSION,
    "Batch": BATCH,
    "PlayerProfile": PLAYER_PROFILE,
    "PlayerPatch": PLAYER_PATCH,
    "PlayerFriends": PLAYER_FRIENDS,
    "Lookup": LOOKUP,
    "TicketRequest": TICKET_REQUEST,
    "NewKey": NEW_KEY,
    "WebhookRequest": WEBHOOK,
    "ReplayRequest": REPLAY,
    "ClockCorrection": CLOCK_CORRECTION,
    "Adjustment": ADJUSTMENT,
    "RetractionRequest": RETRACTION,
    "StandingPatch": METADATA,
    "PlayerStateRequest": PLAYER_STATE,
    "WindowRequest": WINDOW_REQUEST,
    "ReviewDecision": REVIEW_DECISION,
    "ClassicScore": CLASSIC_SCORE,
}
