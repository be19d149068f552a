package customer

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/identity"
	"ajo/internal/identity/dojah"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// The NIN that the fake service knows, and its holder's name.
const (
	nin    = fakebank.SandboxNIN
	holder = "Amina Bello"
)

// bundle is one test's service, beside a NIN service over real HTTP.
type bundle struct {
	*testenv.Env
	*Service
	ctx    context.Context
	bank   *fakebank.Bank
	tenant uuid.UUID
	log    *testenv.Log
}

func setup(t *testing.T, change ...func(*Options)) *bundle {
	t.Helper()
	t.Parallel()
	b := &bundle{Env: testenv.New(t), ctx: context.Background(), log: testenv.NewLog(t)}
	b.bank = b.Bank(fakebank.Options{})
	checker, err := dojah.New(dojah.Options{URL: b.bank.URL(), AppID: "app", Key: "key", Timeout: time.Minute})
	require.NoError(t, err)
	box, err := secret.ParseKeys(secret.NewKey("test").Reveal())
	require.NoError(t, err)
	o := Options{Pool: b.Pool, Box: box, Clock: b.Clock, Identity: checker, CheckTimeout: time.Minute, Log: b.log.Logger()}
	for _, f := range change {
		f(&o)
	}
	b.Service = New(o)
	b.tenant = b.Tenant()
	return b
}

// calls counts the NIN checks that were asked for.
func (b *bundle) calls() int { return b.bank.Calls("GET /api/v1/kyc/nin") }

// in makes a customer whose KYC is in the given state.
func (b *bundle) in(s KYCStatus) uuid.UUID {
	b.T.Helper()
	id := uuid.Must(uuid.NewV7())
	b.Exec(`
		INSERT INTO customers (id, tenant_id, external_ref, name, kyc_status, kyc_tier, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, CASE WHEN $5 = 'approved' THEN 2 ELSE 1 END, $6, $6)`, id, b.tenant, id.String(), holder, s, b.Clock.Now())
	return id
}

func (b *bundle) get(id uuid.UUID) Customer {
	b.T.Helper()
	c, err := b.Get(b.ctx, b.tenant, id)
	require.NoError(b.T, err)
	return c
}

// submit sends a NIN in and returns what came of it.
func (b *bundle) submit(id uuid.UUID, nin string) (Submission, error) {
	return b.SubmitNIN(b.ctx, b.tenant, id, secret.Redact(nin), Submitter{})
}

// answers is a NIN service that says what its test wants.
type answers func(ctx context.Context, nin, name string) (identity.Result, error)

func (f answers) CheckNIN(ctx context.Context, nin, name string) (identity.Result, error) {
	return f(ctx, nin, name)
}
