package ledger

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
)

func example() row {
	transfer, reversal := "AJO1", uuid.MustParse("00000000-0000-7000-8000-000000000005")
	return row{
		Entry: Entry{
			ID: uuid.MustParse("00000000-0000-7000-8000-000000000001"), Direction: Credit, Amount: money.Must("4975.00"), Fee: money.Must("25.00"),
			Currency: money.Currency, Status: Provisional, Narration: "rent ₦", ProviderTxnRef: "T-1", SenderName: "MUSA SALAMI", SenderBank: "GTBank",
			TransactionGroupID: uuid.MustParse("00000000-0000-7000-8000-000000000002"), TransferRef: &transfer, ReversalOf: &reversal,
			CreatedAt: time.Date(2026, 3, 2, 9, 0, 0, 123456000, time.UTC),
		},
		TenantID: uuid.MustParse("00000000-0000-7000-8000-000000000003"), AccountID: uuid.MustParse("00000000-0000-7000-8000-000000000004"),
		Seq: 7, Running: money.Must("9950.00"),
	}
}

// The form is fixed: these hashes were taken when it was made, and stand in books.
func TestChainForm(t *testing.T) {
	e := example()
	before := genesis(e.AccountID)
	require.Equal(t, "24362fd3bfe40bb0762528c7863174b380f24231775b8e7c390848398dcee94a", hex.EncodeToString(before))
	require.Equal(t, "7fefc3cc10db0b6b06dc2ada02561df9d60648859aa518c89136967724a08aee", hex.EncodeToString(link(before, &e)))
}

// Each field is covered, and but for the status nothing else of an entry is there.
func TestChainCoversEachField(t *testing.T) {
	e := example()
	before := genesis(e.AccountID)
	seen := map[string]string{}
	note := func(name string, sum []byte) {
		h := hex.EncodeToString(sum)
		require.Empty(t, seen[h], "%s gives the same hash as %s", name, seen[h])
		seen[h] = name
	}
	note("as it is", link(before, &e))
	note("another before", link(genesis(e.TenantID), &e))
	other, text := uuid.New(), "AJO2"
	for name, change := range map[string]func(*row){
		"tenant": func(r *row) { r.TenantID = other }, "account": func(r *row) { r.AccountID = other }, "number": func(r *row) { r.Seq++ },
		"id": func(r *row) { r.ID = other }, "direction": func(r *row) { r.Direction = Debit }, "amount": func(r *row) { r.Amount = money.Must("4975.01") },
		"fee": func(r *row) { r.Fee = money.Zero }, "currency": func(r *row) { r.Currency = "USD" }, "narration": func(r *row) { r.Narration = "rent" },
		"payer": func(r *row) { r.SenderName = "somebody else" }, "payer's bank": func(r *row) { r.SenderBank = "another" },
		"moved boundary": func(r *row) { r.Narration, r.ProviderTxnRef = "rent ₦T", "-1" }, "reference": func(r *row) { r.ProviderTxnRef = "T-2" },
		"group": func(r *row) { r.TransactionGroupID = other }, "transfer": func(r *row) { r.TransferRef = &text }, "no transfer": func(r *row) { r.TransferRef = nil },
		"reversal": func(r *row) { r.ReversalOf = &other }, "no reversal": func(r *row) { r.ReversalOf = nil }, "running": func(r *row) { r.Running = money.Zero },
		"contra": func(r *row) { r.Contra = Suspense }, "kind": func(r *row) { r.Kind = KindFee }, "another kind": func(r *row) { r.Kind = KindMove },
		"time": func(r *row) { r.CreatedAt = r.CreatedAt.Add(time.Microsecond) },
	} {
		r := e
		change(&r)
		note(name, link(before, &r))
	}
	r := e
	r.Status = Confirmed
	require.Equal(t, link(before, &e), link(before, &r), "the status moves")
}

// BenchmarkLink is what the chain costs in processor time for an entry.
func BenchmarkLink(b *testing.B) {
	e := example()
	before := genesis(e.AccountID)
	b.ReportAllocs()
	for b.Loop() {
		before = link(before, &e)
	}
}
