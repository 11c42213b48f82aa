/** Requests to the console's server; they only read. */

/** An answer that is not the wanted one; `hint` says what to do. `status` is 0 if no answer came. */
class ApiError extends Error {
  constructor(status, message, hint) {
    super(message);
    this.status = status;
    this.hint = hint;
  }
}

const WITHOUT_ANSWER = ["The console does not answer.", "Check whether “culm console” is still running. The page connects again by itself."];

async function fetched(path, signal) {
  let response;
  try {
    response = await fetch(path, { signal, headers: { Accept: "application/json" }, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, ...WITHOUT_ANSWER);
  }
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (response.ok && body !== null) return body;
  const message = typeof body?.error === "string" ? body.error : `The console answered with status ${response.status}.`;
  throw new ApiError(response.ok ? 0 : response.status, message, typeof body?.hint === "string" ? body.hint : "");
}

export const overview = (signal) => fetched("/api/overview", signal);

export const tables = (signal) => fetched("/api/tables", signal);

/** Read one page of a table. */
export function page(name, { search, cursor, limit }, signal) {
  const query = new URLSearchParams({ limit: String(limit) });
  if (search) query.set("search", search);
  if (cursor !== null && cursor !== undefined) query.set("cursor", cursor);
  return fetched(`/api/tables/${encodeURIComponent(name)}?${query}`, signal);
}

/** Read one row whole: a scan that the server bounds. */
export const detail = (name, key, signal) =>
  fetched(`/api/tables/${encodeURIComponent(name)}/${encodeURIComponent(key)}`, signal);
