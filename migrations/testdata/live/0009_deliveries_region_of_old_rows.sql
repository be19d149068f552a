-- +ajo BACKFILL deliveries id
UPDATE deliveries SET region = 'ng' WHERE id BETWEEN $1 AND $2 AND region IS NULL;
