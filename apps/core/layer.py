"""The channel layer of hints: channels_redis over pub/sub, that says when it may have missed something.

After Redis was away the subscriptions come back by themselves (redis-py subscribes anew), but what was published in
between is gone. Every local channel then gets `{"type": "restored"}`, upon which live pages refetch.
"""

import asyncio
from typing import Any

import structlog
from channels_redis.pubsub import RedisPubSubChannelLayer, RedisSingleShardConnection
from channels_redis.utils import create_pool
from redis.asyncio.client import PubSub, Redis

log = structlog.get_logger(__name__)

RESTORED = {"type": "restored"}
WAIT_S = 1.0


class _NoticingPubSub(PubSub):
    """Calls `noticed` whenever its connection was made anew."""

    noticed: Any = None

    async def on_connect(self, connection: Any) -> None:
        """Subscribes anew, then says so."""
        await super().on_connect(connection)
        if self.noticed is not None:
            self.noticed()


class _Shard(RedisSingleShardConnection):  # type: ignore[misc]
    """One connection to Redis that logs a loss once, not each second with a traceback."""

    _redis: Redis | None

    def _ensure_redis(self) -> None:
        if self._redis is None:
            pool = create_pool(self.host)
            self._redis = Redis(connection_pool=pool)
            self._pubsub = _NoticingPubSub(pool)
            self._pubsub.noticed = self._restored

    def _restored(self) -> None:
        log.info("hints.restored", channels=len(self.channel_layer.channels))
        message = self.channel_layer.channel_layer.serialize(RESTORED)
        for queue in self.channel_layer.channels.values():
            queue.put_nowait(message)

    async def _do_receiving(self) -> None:
        lost = False
        while True:
            try:
                if self._pubsub and self._pubsub.subscribed:
                    message = await self._pubsub.get_message(ignore_subscribe_messages=True, timeout=WAIT_S)
                    lost = False
                    self._receive_message(message)
                else:
                    await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # whatever it is, live pages must come back by themselves
                if not lost:
                    log.warning("hints.away", error=str(error))
                lost = True
                await asyncio.sleep(WAIT_S)


class HintLayer(RedisPubSubChannelLayer):  # type: ignore[misc]
    """CHANNEL_LAYERS' backend; the loops' layers get the shards above."""

    def _get_layer(self) -> Any:
        layer = super()._get_layer()
        if not isinstance(layer._shards[0], _Shard):
            layer._shards = [_Shard(shard.host, layer) for shard in layer._shards]
        return layer
