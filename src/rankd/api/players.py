"""Handlers of players: profiles, friends and erasure."""

from typing import Any

from rankd import schemas
from rankd.api.context import ServiceContext
from rankd.api.corrections import shown_states
from rankd.api.messages import Request, Response, decode_body
from rankd.core.reader import check_players
from rankd.core.visibility import Viewer
from rankd.errors import FieldError, InvalidProfile, UnknownPlayer
from rankd.model.facts import NO_PROFILE, Profile


async def put_player(service: ServiceContext, request: Request) -> Response:
    """Change a player's profile: absent fields stay as they are, null clears a field.

    Attributes and friends are replaced as a whole: absent attributes are removed, and the player
    leaves their segments. PATCH keeps them. Returns the new profile.
    """
    actor = service.auth.admit(request, "submit")
    player = request.params["player"]
    await service.writer.profile(player, decode_body(request, dict[str, Any]), actor=actor.name)
    return Response(schemas.encode(_shown(service, player)))


async def patch_player(service: ServiceContext, request: Request) -> Response:
    """Merge into a player's profile: absent attributes stay, null removes one.

    A JSON merge patch (RFC 7396): friends are replaced as a whole. Returns the new profile; a patch
    without effect is not recorded.
    """
    actor = service.auth.admit(request, "submit")
    player, body = request.params["player"], decode_body(request, dict[str, Any])
    await service.writer.merge_profile(player, body, actor=actor.name)
    return Response(schemas.encode(_shown(service, player)))


async def find_players(service: ServiceContext, request: Request) -> Response:
    """Return players whose name or id has a prefix, in the order of their ids.

    Players that have only scores are included if this node has an index of its own; with an index
    in Redis, only those with a profile or friends.
    """
    actor = service.auth.admit(request, "read")
    query, view = request.query, service.rankd
    found = await service.search.find(
        query["query"],
        after=query["after"],
        limit=query["limit"],
        viewer=actor.player,
        hidden_to=service.viewer(actor),
    )
    body = schemas.Players(
        players=[
            schemas.PlayerItem(one.player, one.name, dict(one.attributes)) for one in found.players
        ],
        next_after=found.next_after,
        as_of=view.position,
        stale=view.stale,
    )
    return Response(schemas.encode(body))


async def lookup_players(service: ServiceContext, request: Request) -> Response:
    """Return the names and attributes of some players, in the order of the request.

    An unknown player has no name and no attributes, nor has one that is hidden.
    """
    viewer = service.viewer(service.auth.admit(request, "read"))
    players, view = decode_body(request, schemas.Lookup).players, service.rankd
    check_players(players)
    body = schemas.Players(
        players=[
            _item(player, NO_PROFILE if _hides(viewer, player) else view.state.profile(player))
            for player in players
        ],
        next_after=None,
        as_of=view.position,
        stale=view.stale,
    )
    return Response(schemas.encode(body))


def _hides(viewer: Viewer | None, player: str) -> bool:
    return viewer is not None and viewer.hides(player)


def _item(player: str, known: Profile) -> schemas.PlayerItem:
    return schemas.PlayerItem(player, known.name, dict(known.attributes))


async def get_player(service: ServiceContext, request: Request) -> Response:
    """Return a player's profile and friends; with the scope moderate, its state and the reason."""
    viewer = service.viewer(service.auth.admit(request, "read"))
    state, player = service.rankd.state, request.params["player"]
    moderates = service.auth.admission(request, "moderate") is not None
    states = state.player_states.get(player, ()) if moderates else ()
    known = player in state.profiles or player in state.visibility or bool(states)
    if not known or _hides(viewer, player):
        raise UnknownPlayer(player)
    shown = _shown(service, player)
    if viewer is not None:
        shown.friends = list(viewer.friends(player))
    if moderates:
        shown.state, shown.reason = "active", None
        if states:
            shown.state, shown.reason = states[-1].state, states[-1].reason
        shown.states = shown_states(states)
    return Response(schemas.encode(shown))


async def erase_player(service: ServiceContext, request: Request) -> Response:
    """Erase a player's personal data, from the ledger too; all ranks stay as they are.

    Entries stay under the player's id, without a name, metadata and segments. The response comes
    once the data is gone from facts, snapshots and archives; backups made before still have it. An
    erasure that is interrupted is finished at the next start.
    """
    actor = service.auth.admit(request, "moderate")
    position = await service.writer.erase(
        request.params["player"],
        actor=actor.name,
        reason=request.query["reason"],
        unfriend=request.query["unfriend"] or False,
    )
    return Response(schemas.encode(schemas.Done(position)))


async def put_friends(service: ServiceContext, request: Request) -> Response:
    """Set a player's friends, replacing all of them."""
    actor = service.auth.admit(request, "submit")
    body = decode_body(request, dict[str, Any])
    if set(body) != {"friends"}:
        raise InvalidProfile([FieldError("friends", "must be given, and nothing else")])
    player = request.params["player"]
    await service.writer.set_friends(player, body["friends"], actor=actor.name)
    return Response(schemas.encode(_shown(service, player)))


def _shown(service: ServiceContext, player: str) -> schemas.Profile:
    view = service.rankd
    known = view.state.profile(player)
    return schemas.Profile(
        player,
        known.name,
        dict(known.attributes),
        list(known.friends),
        view.position,
        view.state.visibility.get(player, "public"),
        stale=view.stale,
    )
