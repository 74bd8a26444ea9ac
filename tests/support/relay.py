"""A relay that makes a way long: `python -m tests.support.relay SECONDS PORT HOST PORT`. Each direction is late by so
much; how much is under way is bounded by the time alone, as on a real line."""

from __future__ import annotations

import asyncio
import sys

_READ_BYTES = 1 << 18
_MOST_CHUNKS = 1024


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_CHUNKS)

    async def deliver() -> None:
        while True:
            at, data = await under_way.get()
            await asyncio.sleep(at - loop.time())
            if not data:
                return
            writer.write(data)
            await writer.drain()

    async def take() -> None:
        while True:
            data = await reader.read(_READ_BYTES)
            await under_way.put((loop.time() + seconds, data))
            if not data:
                return

    try:
        await asyncio.gather(take(), deliver())
    except OSError:
        pass  # one end is gone: so is the other
    finally:
        writer.close()


async def _main(seconds: float, port: int, host: str, target: int) -> None:
    async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(host, target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pipe(reader, far_writer, seconds), _pipe(far_reader, writer, seconds))

    server = await asyncio.start_server(joined, "0.0.0.0", port)
    print("relays", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
