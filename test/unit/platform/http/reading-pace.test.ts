import { EventEmitter } from "node:events";
import type { Server } from "node:http";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { endSlowReaders, LEAST_OCTETS_PER_SECOND } from "../../../../services/platform/http/reading-pace.ts";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const SECOND_MS = 1_000;

/** A connection with an answer to read, whose client takes so many octets every five seconds. */
function readAt(takenAtATime: number, { isReady = (_second: number): boolean => true } = {}) {
  const server = new EventEmitter();
  endSlowReaders(server as Server, "connection", 60 * SECOND_MS);
  const socket = Object.assign(new EventEmitter(), { bytesWritten: 0, writableLength: 0, destroy: vi.fn() });
  server.emit("connection", socket);
  for (let second = 0; second < 600 && !socket.destroy.mock.calls.length; second += 1) {
    socket.writableLength = isReady(second) ? 16_384 : 0;
    if (second % 5 === 4 && isReady(second)) socket.bytesWritten += takenAtATime;
    vi.advanceTimersByTime(SECOND_MS);
  }
  server.emit("close");
  return socket.destroy;
}

const PACE = 5 * LEAST_OCTETS_PER_SECOND;

it("spares whoever reads at the least pace", () => {
  expect(readAt(PACE)).not.toHaveBeenCalled();
});

it.each([0, 300, PACE * 0.8])("ends whoever reads %i octets every five seconds", (octets) => {
  expect(readAt(octets)).toHaveBeenCalledOnce();
});

it("does not count the time in which there is nothing to read", () => {
  expect(readAt(PACE, { isReady: (second) => second % 60 < 5 })).not.toHaveBeenCalled();
  expect(readAt(0, { isReady: () => false })).not.toHaveBeenCalled();
});
