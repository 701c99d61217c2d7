-- Name servers tell zones apart by their apexes, so that a row with another zone's must not be.
create unique index zones_apex on zones (apex);
