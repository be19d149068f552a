package e2e

import (
	"bytes"
	"testing"
	"time"

	"ajo/internal/testenv"
)

// Old rows cannot be removed, so a worker does not tidy to the end.
func TestAlertsOfTidying(t *testing.T) {
	a := newAlarm(t)
	roles := map[string]string{}
	roles["api"] = a.watched(func() { a.startAPI() })
	a.Exec(`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'could not extend file'; END $$`)
	a.Exec(`CREATE TRIGGER fail BEFORE DELETE ON idempotency_keys FOR EACH STATEMENT EXECUTE FUNCTION fail()`)
	worker := a.fresh(roles, "expire")
	testenv.Eventually(t, 3*time.Minute, "tidying that fails", func() bool { return bytes.Contains(worker.out.all(), []byte("old rows were not removed")) })
	a.look(roles)
	a.must("AjoTidyStopped")
	a.says(worker, "AjoTidyStopped", "alert=tidy")

	a.Exec(`DROP TRIGGER fail ON idempotency_keys`)
	a.fresh(roles, "expire")
	testenv.Eventually(t, 3*time.Minute, "tidying", func() bool { return sample(scrape(roles["worker"]), "ajo_tidy_last_success_timestamp_seconds") > 0 })
	a.quiet(roles, "AjoTidyStopped")
}
