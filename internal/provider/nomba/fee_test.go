package nomba

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/money"
)

// A fee that is not there is not known, which is not the same as none. Nor is one that cannot be
// read, or that stands beside a tax that cannot be.
func TestFeeOfAPayoutsRecord(t *testing.T) {
	t.Parallel()
	for label, tt := range map[string]struct {
		change fields
		want   string
	}{
		"fixedCharge":        {nil, "20.00"},
		"fee":                {fields{"fixedCharge": nil, "fee": 12.5}, "12.50"},
		"none":               {fields{"fixedCharge": "0"}, "0.00"},
		"not there":          {fields{"fixedCharge": nil}, ""},
		"an empty text":      {fields{"fixedCharge": ""}, ""},
		"text of a null":     {fields{"fixedCharge": nil, "fee": nil}, ""},
		"no amount":          {fields{"fixedCharge": "N/A"}, ""},
		"below zero":         {fields{"fixedCharge": "-1"}, ""},
		"beside an odd tax":  {fields{"vat": "1.6125"}, ""},
		"beside an odd duty": {fields{"vat": "1.61", "stampDuty": "x"}, ""},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			c, _ := setup(t, always(200, good(payout(tt.change))))
			got, err := c.Payout(t.Context(), ref)
			require.NoError(t, err)
			if tt.want == "" {
				require.Equal(t, []*money.Amount{nil, nil, nil}, []*money.Amount{got.Fee, got.VAT, got.StampDuty}, "all or none")
				return
			}
			require.Equal(t, tt.want, got.Fee.String())
		})
	}
}
