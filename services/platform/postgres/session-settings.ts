/**
 * What a session is to have whatever a role, a database or a server sets. It is set once the session stands: as
 * parameters of its start a pooler would refuse most of it.
 */

/**
 * How values are read and written. The server reports these settings whenever they change (`GUC_REPORT`), so a pooler in
 * transaction mode keeps them for each of its clients.
 */
export const READ_BACK = "set datestyle = 'ISO, MDY'; set timezone = 'UTC'; set standard_conforming_strings = on";

/**
 * For sessions that are ours alone: in transaction mode a pooler would leave these to others. An instance that came after
 * the last statistics is taken for a row or none: what it has would be kept and gone through for each row of what it is
 * joined with (`enable_material`), where hashes and indexes serve whatever there is.
 */
export const OWN_SESSION = `set default_transaction_isolation = 'read committed'; set intervalstyle = 'postgres';
  set bytea_output = 'hex'; set extra_float_digits = 1; set enable_material = off`;

/** A plan that has to read a table whole after all is then so dear that PostgreSQL would compile it: hence `jit`. */
export const BY_INDEX = "set enable_seqscan = off; set jit = off";

/** For connections that wait for notices without end, or read for as long as it takes. */
export const BESIDE_POOL =
  "set statement_timeout = 0; set idle_session_timeout = 0; set idle_in_transaction_session_timeout = 0";
