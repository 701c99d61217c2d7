import { EventEmitter } from "node:events";
import type pg from "pg";
import { expect, test, vi } from "vitest";
import { listenForMail } from "../../../services/delivery/listen-for-mail.ts";

/** A connection that ends when it is told to. */
class FakeClient extends EventEmitter {
  query = async () => ({});
  end = async () => {};
}

test("stops at once, also after its connection was lost", async () => {
  vi.useFakeTimers();
  try {
    const clients: FakeClient[] = [];
    const openListenConnection = async () => {
      clients.push(new FakeClient());
      return clients.at(-1) as unknown as pg.Client;
    };
    const onMail = vi.fn();
    const listening = listenForMail({ openListenConnection, observe: () => {} }, { onMail, onStop: () => {} });
    await vi.advanceTimersByTimeAsync(30_000);
    clients[0]!.emit("end");
    await vi.advanceTimersByTimeAsync(40_000);
    expect([clients.length, onMail.mock.calls.length]).toEqual([2, 2]);
    const stopped = vi.fn();
    const stopping = listening.stop().then(stopped);
    await vi.advanceTimersByTimeAsync(0);
    expect(stopped).toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
    await stopping;
  } finally {
    vi.useRealTimers();
  }
});
