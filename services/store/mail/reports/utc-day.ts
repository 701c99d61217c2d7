/** The day that it is, in SQL: reports about DMARC and TLS count by days of UTC, whatever time zone the database has. */
export const TODAY = "(now() at time zone 'UTC')::date";
